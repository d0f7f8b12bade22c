"""Fast: where a configuration is found, what it may say, and how it says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepward.validator.gate.settings import ConfigurationError, Configurations, Overrides, Settings, read_settings

ALL_KEYS = """
select = ["SW4"]
ignore = ["SW407"]
fail-on = "warning"
policies = ["rules/money.yaml"]
exclude = ["old/"]
extend-exclude = ["*.draft.yaml"]
baseline = "known.json"
time-limit = 7.5

[[per-file-ignores]]
files = "flows/*.yaml"
codes = ["SW108"]
reason = "both ways are the same until May"

[[per-file-ignores]]
files = ["a.yaml", "b.yaml"]
codes = ["SW5"]
reason = "imported"
"""


def own(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stepward.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(tmp_path: Path, text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(own(tmp_path, text))
    assert "stepward.toml" in caught.value.message
    assert caught.value.help
    return caught.value


def test_every_key_is_read(tmp_path: Path) -> None:
    settings = read_settings(own(tmp_path, ALL_KEYS))
    assert settings is not None
    assert settings.select == ("SW4",)
    assert settings.ignore == ("SW407",)
    assert settings.fail_on == ("warning",)
    assert settings.policies == (tmp_path / "rules/money.yaml",)
    assert settings.exclude == ("old/",)
    assert settings.extend_exclude == ("*.draft.yaml",)
    assert settings.baseline == tmp_path / "known.json"
    assert settings.time_limit == 7.5
    first, second = settings.per_file_ignores
    assert (first.codes, first.line) == (("SW108",), 11)
    assert (second.files.lines, second.line, second.number) == (("a.yaml", "b.yaml"), 16, 1)


def test_pyproject_has_the_same_keys_in_its_table(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.stepward]\nselect = ["SW1"]\n[[tool.stepward.per-file-ignores]]\n'
                    'files = "a"\ncodes = ["SW1"]\nreason = "x"\n')  # fmt: skip
    settings = read_settings(path)
    assert settings is not None
    assert settings.select == ("SW1",)
    assert settings.per_file_ignores[0].line == 3


def test_a_pyproject_of_other_tools_is_no_configuration_even_when_it_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    for text in ("[tool.ruff]\nline-length = 3\n", "[tool.ruff\n", "[tool.ruff]\nnote = 'not stepward'\n"):
        path.write_text(text)
        assert read_settings(path) is None


@pytest.mark.parametrize(
    ("text", "says", "offers"),
    [
        ('selct = ["SW1"]', "unknown key `selct`", "did you mean `select`?"),
        ("colour = 1", "unknown key `colour`", "the keys here are `select`"),
        ("select = 'SW1'", "`select` must be a list of texts", "["),
        ("ignore = [1]", "`ignore` must be a list of texts", "["),
        ('select = ["SW41O"]', "`select`: `SW41O` is not a code", "did you mean `SW4"),
        ('select = ["guardrail-bypassed"]', "`guardrail-bypassed` is not a code", "did you mean `SW401`?"),
        ('select = ["guardrail_bypased"]', "`guardrail_bypased` is not a code", "did you mean `SW401`?"),
        ('fail-on = "info"', "`fail-on`: `info` is not `error`, `warning`, a code", "`stepward explain` lists all"),
        ('fail-on = "warnings"', "`warnings` is not `error`", "did you mean `warning`?"),
        ('fail-on = ["error", "SW41O"]', "`fail-on`: `SW41O` is not", "did you mean `SW4"),
        ("fail-on = 3", "`fail-on` must be text or a list", "fail-on"),
        ("fail-on = []", "`fail-on`: names nothing", "`error`"),
        ("time-limit = '60'", "`time-limit` must be a number of seconds above 0", "time-limit = 60"),
        ("time-limit = 0", "`time-limit` must be a number of seconds above 0", "time-limit = 60"),
        ("time-limit = true", "`time-limit` must be a number of seconds above 0", "time-limit = 60"),
        ("time-limit = inf", "`time-limit` must be a number of seconds above 0", "time-limit = 60"),
        ("policies = 'a.yaml'", "`policies` must be a list", "policies"),
        ("baseline = []", "`baseline` must be text", "baseline"),
        ('exclude = ["!"]', "`!` is not a pattern", ".gitignore"),
        ("per-file-ignores = {}", "must be an array of tables", "[[per-file-ignores]]"),
        ('[[per-file-ignores]]\nfiles="a"\ncodes=["SW1"]', "has no `reason`", "why"),
        (
            '[[per-file-ignores]]\nfiles="a"\ncodes=["SW1"]\nreason=" "',
            "`per-file-ignores[0].reason` must be text",
            "…",
        ),
        ('[[per-file-ignores]]\nfile="a"\ncodes=["SW1"]', "unknown key `per-file-ignores[0].file`", "`files`"),
        ("select = [", "not readable as TOML", "--isolated"),
    ],
)
def test_an_error_is_reported_with_the_key_and_the_help(tmp_path: Path, text: str, says: str, offers: str) -> None:
    error = refusal(tmp_path, text)
    assert says in error.message
    assert offers in error.help


def test_a_configuration_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stepward.toml"
    path.write_bytes(b"select = ['\xe9']")
    with pytest.raises(ConfigurationError, match="it is not UTF-8"):
        read_settings(path)


def test_the_nearest_configuration_counts_and_no_other(tmp_path: Path) -> None:
    own(tmp_path, 'select = ["SW1"]\nignore = ["SW102"]')
    own(tmp_path / "a", 'ignore = ["SW2"]')
    (tmp_path / "b/c").mkdir(parents=True)
    found = Configurations()
    assert found.above(tmp_path / "a").select is None
    assert found.above(tmp_path / "a").ignore == ("SW2",)
    assert found.above(tmp_path / "b/c").select == ("SW1",)
    assert found.above(tmp_path / "b/c") is found.above(tmp_path)


def test_stepward_toml_wins_over_pyproject_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.stepward]\nselect = ["SW9"]\n')
    assert Configurations().above(tmp_path).select == ("SW9",)
    own(tmp_path, 'select = ["SW1"]')
    assert Configurations().above(tmp_path).select == ("SW1",)


NEARER = [
    ("stepward.toml", 'select = ["SW1"]'),
    ("stepward.toml", "policies = []"),
    ("stepward.toml", 'policies = ["more.yaml"]'),
    ("pyproject.toml", '[tool.stepward]\nignore = ["SW4"]'),
    ("pyproject.toml", "[tool.stepward]\npolicies = []"),
]


@pytest.mark.parametrize("place", [".", "a", "a/b"])
@pytest.mark.parametrize(("name", "text"), NEARER)
@pytest.mark.parametrize("outer", ["stepward.toml", "pyproject.toml"])
def test_a_nearer_configuration_adds_policies_and_drops_none(
    tmp_path: Path, outer: str, name: str, text: str, place: str
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    table = "[tool.stepward]\n" if outer == "pyproject.toml" else ""
    (tmp_path / outer).write_text(f'{table}policies = ["house.yaml"]')
    if not (tmp_path / place / name).exists():
        (tmp_path / place / name).write_text(text)
    more = (tmp_path / place / "more.yaml",) if "more" in (tmp_path / place / name).read_text() else ()
    given = Overrides(policies=(Path("/given.yaml"),))
    assert set(Configurations().above(tmp_path / "a/b").policies) == {tmp_path / "house.yaml", *more}
    assert set(Configurations(given).above(tmp_path / "a/b").policies) == {
        tmp_path / "house.yaml", *more, Path("/given.yaml"),
    }  # fmt: skip
    assert Configurations(is_isolated=True).above(tmp_path / "a/b").policies == ()


def test_a_configuration_for_everything_reads_no_other_policies(tmp_path: Path) -> None:
    own(tmp_path, 'policies = ["house.yaml"]')
    named = own(tmp_path / "gate", 'policies = ["gate.yaml"]')
    assert Configurations(config=named).above(tmp_path / "a").policies == (tmp_path / "gate/gate.yaml",)


def test_a_named_configuration_counts_for_everything(tmp_path: Path) -> None:
    own(tmp_path / "a", 'select = ["SW1"]')
    other = tmp_path / "gate.toml"
    other.write_text('select = ["SW5"]')
    assert Configurations(config=other).above(tmp_path / "a").select == ("SW5",)
    assert Configurations(is_isolated=True).above(tmp_path / "a") == Settings(Path.cwd())


def test_a_named_pyproject_has_to_have_the_table(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.ruff]\n")
    with pytest.raises(ConfigurationError, match=r"has no `\[tool.stepward\]`"):
        Configurations(config=path)
    with pytest.raises(ConfigurationError, match="no such file"):
        Configurations(config=tmp_path / "none.toml")


def test_the_command_line_wins_and_its_policies_come_on_top(tmp_path: Path) -> None:
    own(tmp_path, ALL_KEYS)
    overrides = Overrides(
        ignore=("SW9",), fail_on=("SW4", "error"), policies=(Path("/more.yaml"),), baseline=Path("/b")
    )
    settings = Configurations(overrides).above(tmp_path)
    assert settings.select == ("SW4",)
    assert settings.ignore == ("SW9",)
    assert settings.fail_on == ("SW4", "error")
    assert settings.baseline == Path("/b")
    assert settings.policies == (tmp_path / "rules/money.yaml", Path("/more.yaml"))


@pytest.mark.parametrize(
    ("select", "ignore", "wanted", "unwanted"),
    [
        (None, (), ["SW101", "SW999"], []),
        (("SW4",), (), ["SW401"], ["SW101"]),
        (None, ("SW4",), ["SW101"], ["SW401"]),
        (("SW401",), ("SW4",), ["SW401"], ["SW402"]),
        (("SW4",), ("SW401",), ["SW402"], ["SW401"]),
        (("SW401",), ("SW401",), [], ["SW401"]),
    ],
)
def test_of_select_and_ignore_the_longer_match_wins(
    select: tuple[str, ...] | None, ignore: tuple[str, ...], wanted: list[str], unwanted: list[str]
) -> None:
    settings = Settings(Path("/"), select=select, ignore=ignore)
    assert all(map(settings.selects, wanted))
    assert not any(map(settings.selects, unwanted))
