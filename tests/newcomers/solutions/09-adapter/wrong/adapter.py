"""The model service of the company."""

import json
from urllib.request import Request, urlopen

from stepward.vm import ModelReply, ModelRequest


class DeskModel:
    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    def complete(self, request: ModelRequest) -> ModelReply:
        messages = [{"role": "user", "text": request.prompt}]
        if request.system is not None:
            messages.insert(0, {"role": "system", "text": request.system})
        body = {"messages": messages, "one_of": request.allowed, "json_schema": request.schema}
        headers = {"Content-Type": "application/json", "X-Desk-Key": self.key}
        call = Request(f"{self.url}/v2/answers", json.dumps(body).encode(), headers)
        for _ in range(3):
            try:
                response = urlopen(call, timeout=30)
                break
            except OSError:
                pass
        with response:
            said = json.load(response)
        return ModelReply(said["answer"]["text"], tokens=said["usage"]["read"] + said["usage"]["written"])
