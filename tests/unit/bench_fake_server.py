"""Stands in for `vllm serve` in tests: answers, writes a trace, has a child, and misbehaves on request.

python bench_fake_server.py PORT PID_FILE MODE...
  stubborn  ignores SIGINT and SIGTERM, and so does its child, which leaves the session as well
  die       ends at once, after a log line
  crash     ends when the first completion arrives
  reject    answers every completion with status 400
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHILD = "import signal, sys, time\nif sys.argv[1:]: signal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    modes: tuple[str, ...] = ()
    trace: Path | None = None
    lock = threading.Lock()

    def log_message(self, *_):
        return

    def reply(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(200, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "crash" in self.modes:
            sys.stdout.write("the fake engine fell over\n")
            sys.stdout.flush()
            os._exit(3)
        if "reject" in self.modes:
            self.reply(400, {"error": "not today"})
            return
        prompts, labels = body["prompt"], body["logprob_token_ids"]
        choices = []
        for index, prompt in enumerate(prompts):
            digest = hashlib.sha256(json.dumps(prompt).encode()).digest()
            top = {f"token_id:{label}": -0.5 - digest[place] / 32 for place, label in enumerate(labels)}
            choices.append({"index": index, "logprobs": {"top_logprobs": [top]}})
        tokens = sum(len(prompt) for prompt in prompts)
        if self.trace is not None:
            with self.lock, self.trace.open("a") as stream:
                for first in (True, False):
                    record = {
                        "t": time.monotonic(),
                        "rows": 1 if first else len(prompts) - 1,
                        "new_rows": 1 if first else len(prompts) - 1,
                        "tokens": 1 if first else tokens - 1,
                        "cached_tokens": 0,
                        "host_us": 10.0,
                        "telemetry_us": 2.0,
                        "deferrals": {"pending": 1} if first else {},
                        "release": "rows" if first else None,
                        "schedule_sha256": "0" * 64,
                    }
                    stream.write(json.dumps(record) + "\n")
        self.reply(200, {"choices": choices[::-1], "usage": {"prompt_tokens": tokens}})


def main():
    port, pid_file, modes = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    if "die" in modes:
        sys.stdout.write("the fake engine has no model\n")
        sys.exit(7)
    stubborn = "stubborn" in modes
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *(["stubborn"] if stubborn else [])], start_new_session=stubborn
    )
    if stubborn:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    Handler.modes = tuple(modes)
    settings = json.loads(os.environ.get("RADIXFLOW_CONFIG", "{}"))
    if path := settings.get("trace_path"):
        Handler.trace = Path(path)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    pid_file.write_text(f"{os.getpid()} {child.pid}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)  # the child is left behind on purpose


if __name__ == "__main__":
    main()
