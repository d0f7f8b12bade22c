"""A browser for tests of pages: headless Chromium, driven by `chromedriver` over the WebDriver protocol of the W3C."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sizes import MANY

CAN_BROWSE: Final = shutil.which("chromedriver") is not None and shutil.which("chromium") is not None
WHY_NOT: Final = "chromium and chromedriver are not installed"

AXE: Final = os.environ.get("STEPWARD_AXE", "")
"""The file `axe.min.js` of the package axe-core, if it is there: `.ci/run` fetches it."""

PATIENCE: Final = 30.0
"""Seconds after which an answer of the browser is late."""

_COLOURS: Final = "axe.run({runOnly: ['color-contrast', 'link-in-text-block']})"
LOOKS: Final = {"light": "axe.run()", "dark": "axe.run()" if MANY else _COLOURS}
"""What axe-core looks for: by day only for faults of colours where the page is dark, as the rest of it is the same."""

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A window of a browser. Scripts run as the driver's own, so the policy of the page does not forbid them."""

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, address: str) -> None:
        """Load a page, and wait until it is loaded."""
        _post(f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns; `arguments[0]` is its first argument."""
        return _post(f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """Click the first element of a selector as a user does: it must be visible."""
        found = _post(f"{self._session}/element", {"using": "css selector", "value": selector})
        _post(f"{self._session}/element/{found[_ELEMENT]}/click", {})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, where the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        _post(f"{self._session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def run_later(self, script: str) -> Any:
        """Return what a script gives to the function that is its last argument."""
        return _post(f"{self._session}/execute/async", {"script": script, "args": []})

    def resize(self, width: int, height: int) -> None:
        """Make the part of the window that shows the page so large, in pixels of CSS."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        """Show pages as on a system that is `dark` or `light`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        _post(f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def picture(self) -> bytes:
        """Return a picture of the window as PNG."""
        with urllib.request.urlopen(f"{self._session}/screenshot", timeout=PATIENCE) as answer:
            return base64.b64decode(json.load(answer)["value"])

    def log(self) -> list[str]:
        """Return what the page has written to the console since the last call, as texts."""
        return [entry["message"] for entry in _post(f"{self._session}/se/log", {"type": "browser"})]


def serious_faults(window: Browser, scheme: str) -> list[tuple[str, list[str]]]:
    """Return the faults of accessibility of the page that axe-core calls serious or critical, with elements that have
    them."""
    script = Path(AXE).read_text(encoding="utf-8")
    found = window.run_later(f"{script}; const done = arguments[arguments.length - 1]; {LOOKS[scheme]}.then(done)")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in serious]


@contextmanager
def browser(width: int = 1280, height: int = 800) -> Iterator[Browser]:
    """Start a driver and a window on loopback, and end both."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        _wait_for(base)
        # No sandbox: a container has no right to make one. Only our own pages are opened.
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        arguments.append(f"--window-size={width},{height}")
        wanted = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        made = _post(f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        session = f"{base}/session/{made['sessionId']}"
        yield Browser(session)
        urllib.request.urlopen(urllib.request.Request(session, method="DELETE"), timeout=PATIENCE).close()
    finally:
        driver.terminate()
        driver.wait()


def _wait_for(base: str) -> None:
    late = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{base}/status", timeout=PATIENCE).close()
            return
        except OSError:
            if time.monotonic() > late:
                raise
            time.sleep(0.05)


def _post(address: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from None
