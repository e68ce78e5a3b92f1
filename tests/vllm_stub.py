"""Servers that answer like vLLM's, in threads of the tests: they play with the whole weights that they were sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import pi, sqrt
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import torch
from safetensors.torch import load_file

from mage.models.load import LoadedModel

LENGTH = 256


class Stub(ThreadingHTTPServer):
    """One server."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, loaded: LoadedModel, folder: Path) -> None:
        """`folder` has the model's config."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.folders: list[str] = []
        """Of weights, in the order in which they came."""
        self.prompts: list[tuple[int, ...]] = []
        self.version = "0.32.0"
        self.adapters: dict[str, int] | None = None
        """What it says of its room for adapters; it has none."""
        self.is_deaf = False
        """Whether it says that it has loaded weights, and has not."""
        self.noise = 0.0
        """Mean absolute size of what is added to its logits, as another implementation's rounding would."""
        self._draw = torch.Generator().manual_seed(1)
        self._model = copy.deepcopy(loaded.model)
        self._folder = folder
        self._lock = Lock()

    def info(self) -> dict[str, Any]:
        model = {"model": str(self._folder), "served_model_name": "served", "max_model_len": LENGTH}
        how = {"logprobs_mode": "processed_logprobs", "max_logprobs": -1, "dtype": str(self._model.dtype)}
        more = {"parallel_config": {"worker_extension_cls": ""}, "lora_config": self.adapters}
        return {"vllm_config": {"model_config": {**model, **how}, **more}}

    def load(self, folder: str) -> None:
        with self._lock:
            self.folders.append(folder)
            if not self.is_deaf:
                self._model.load_state_dict(load_file(Path(folder) / "model.safetensors"))

    @torch.no_grad()
    def generate(self, prompt: list[int], params: dict[str, Any]) -> dict[str, Any]:
        """Tokens by the request's own seed, with the log-probability of each, and of those that are asked for."""
        draw = torch.Generator().manual_seed(params.get("seed", 0))
        content: list[dict[str, Any]] = []
        ids = list(prompt)
        with self._lock:
            self.prompts.append(tuple(prompt))
            while len(content) < params["max_tokens"] and ids[-1:] != params.get("stop_token_ids"):
                logits_V = self._model(torch.tensor([ids])).logits[0, -1].float()
                logits_V += self.noise * sqrt(pi / 2) * torch.randn(logits_V.shape, generator=self._draw)
                logprobs_V = (logits_V / (params["temperature"] or 1.0)).log_softmax(0)
                chosen = int(torch.multinomial(logprobs_V.exp(), 1, generator=draw))
                named = dict.fromkeys([chosen, *params.get("logprob_token_ids", ())])
                others = [_entry(token, logprobs_V[token]) for token in named][: params["logprobs"]]
                content.append({**_entry(chosen, logprobs_V[chosen]), "top_logprobs": others})
                ids.append(chosen)
        return {"choices": [{"token_ids": ids[len(prompt) :], "logprobs": {"content": content}}]}


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        self._answer({"version": self.server.version} if self.path == "/version" else self.server.info())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/inference/v1/generate":
            self._answer(self.server.generate(body["token_ids"], body["sampling_params"]))
        else:
            assert body["method"] == "reload_weights", body
            self.server.load(body["kwargs"]["weights_path"])
            self._answer({"results": [None]})

    def _answer(self, found: object) -> None:
        data = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def _entry(token: int, logprob: torch.Tensor) -> dict[str, Any]:
    return {"token": f"token_id:{token}", "logprob": float(logprob)}


@contextmanager
def stubs(loaded: LoadedModel, folder: Path, num: int) -> Iterator[list[Stub]]:
    """Servers of one model, whose config is written to a folder."""
    loaded.model.config.save_pretrained(folder)
    found = [Stub(loaded, folder) for _ in range(num)]
    threads = [Thread(target=stub.serve_forever, args=(0.05,), daemon=True) for stub in found]
    for thread in threads:
        thread.start()
    yield found
    for stub in found:
        stub.shutdown()
        stub.server_close()
