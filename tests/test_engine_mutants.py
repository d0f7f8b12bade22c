"""Every planted mistake of the engine must be caught: the comparison with brute force parts from it on some program.

The mistakes stand in engine_mistakes.py, which also looks for the seeds of this table anew; negative seeds are the
programs by hand in small_programs.py. On all of them the engine without a mistake must be right.
"""

from __future__ import annotations

import pytest

from engine_mistakes import MISTAKES, given_away, wrong

SEEDS: dict[str, tuple[int, ...]] = {
    "an_output_stays_when_its_step_fails": (12, 47, 56),
    "a_new_output_is_the_old_one": (4, 12, 15),
    "an_error_is_not_written_down": (1364, 1468, 2387),
    "the_branches_are_exchanged": (6, 8, 10),
    "nobody_goes_to_the_error_step": (0, 22, 29),
    "nobody_falls_back": (229, 429),
    "nothing_that_is_read_is_ever_undefined": (38, 177, 304),
    "a_set_never_fails": (145,),
    "a_condition_never_fails": (55, 578),
    "an_end_never_fails": (-1,),
    "a_set_assigns_one_name_after_the_other": (-7,),
    "siblings_of_a_failed_part_lose_their_outputs": (177,),
    "what_used_up_its_visits_keeps_its_output": (-2,),
    "what_was_skipped_succeeded": (267, 381, 545),
    "what_fell_back_succeeded": (229, 429),
    "what_failed_succeeded": (55, 59, 80),
    "a_stale_guard_stays_fresh": (18, 437, 538),
    "what_went_stale_still_stands": (18, 437, 538),
    "what_never_came_is_called_stale": (6, 19, 37),
    "siblings_come_before_one_another": (6, 19, 21),
    "retries_perform_nothing_anew": (5, 42, 123),
    "two_siblings_are_one_performance": (42, 365, 370),
    "what_failed_was_not_performed": (70, 77, 113),
    "one_side_of_an_exclusion_is_forgotten": (33, 77, 98),
    "a_failed_run_owes_nothing": (55, 145, 178),
    "what_never_started_has_followed": (-9,),
    "a_when_that_cannot_be_read_breaks_nothing": (56, 177, 231),
    "nobody_uses_up_visits": (-4, -3, -2),
    "visits_run_out_one_too_early": (10, 15, 42),
    "visits_run_out_one_too_late": (-3,),
    "used_up_visits_lead_to_the_error_step_for_ever": (-4,),
    "the_last_step_of_a_budget_is_not_to_be_had": (-6, -5),
    "a_step_costs_its_retries_even_if_it_succeeds": (-6,),
    "sub_steps_cost_twice": (112, 195),
    "a_decision_that_matters_is_sliced_away": (296,),
    "writers_are_sliced_away": (12, 51, 56),
    "what_a_variable_is_copied_from_is_not_tracked": (4, 12, 14),
    "of_two_ways_to_one_place_the_cheaper_is_kept": (12, 27, 38),
    "what_can_break_a_rule_later_is_pruned": (2, 4, 8),
    "a_table_of_conditions_leaves_out_who_writes": (1, 9, 14),
    "what_is_not_evaluated_can_fail": (0, 231, 513),
    "cases_are_looked_at_last_first": (15, 17, 27),
    "a_condition_that_fails_is_false": (3, 12, 15),
    "a_missing_then_is_a_missing_otherwise": (-8,),
    "only_the_first_two_cases_are_held_against_each_other": (455,),
    "what_is_given_keeps_its_class": (4, 12, 15),
    "what_is_calculated_keeps_its_class": (-11, -10),
    "a_copy_goes_the_other_way": (9, 12, 14),
    "a_copy_reaches_no_class_but_the_first": (4, 9, 12),
    "every_place_is_looked_at_once": (-11, -2, 10002),
    "variables_are_defined_before_all_steps": (0, 3),
    "the_last_choice_is_left_out": (0, 9, 10),
    "what_is_given_keeps_its_value": (4, 12, 15),
    "a_place_is_visited_once": (1, 6, 9),
    "an_input_is_not_there": (1, 9, 10),
    "what_is_copied_is_not_live": (14, 18, 63),
    "a_failing_expression_holds": (3, 12, 15),
    "a_loop_forgets_nothing": (2029, 3597, -11),
    "a_loop_is_cut_although_its_header_does_not_dominate": (2029, 13144, 13763),
    "what_is_given_keeps_its_version": (4, 12, 15),
    "a_guard_that_fails_is_a_guard_that_does_not_hold": (3, 12, 15),
    "every_candidate_is_believed": (27, 104, 112),
}


def test_every_mistake_has_seeds() -> None:
    assert SEEDS.keys() == MISTAKES.keys()
    assert all(SEEDS.values())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_caught(name: str) -> None:
    said = [wrong(name, seed, MISTAKES[name].layer) for seed in SEEDS[name]]
    assert any(map(given_away, said)), f"what it gets wrong: {said}; look for other seeds with engine_mistakes.py"


@pytest.mark.parametrize(
    "layer", sorted({mistake.layer for mistake in MISTAKES.values()}), ids=lambda one: one or "all"
)
def test_the_engine_without_mistakes_is_right_there(layer: str) -> None:
    seeds = {seed for name, mistake in MISTAKES.items() if mistake.layer == layer for seed in SEEDS[name]}
    said = {seed: wrong(None, seed, layer) for seed in sorted(seeds)}
    assert not {seed: found for seed, found in said.items() if found}
