"""`python -m stages.engines.load URL MODEL SCENARIO`: measures a server under load, and prints the figures.

For people; a run of the kind `trial` measures the same way. The key of the server is in `OPENAI_API_KEY`.
"""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from events.runtime.clock import SystemClock
from events.text.traffic import EXAMPLES, read_scenarios
from stages.engines.load.measurement import Measurement
from stages.engines.load.measuring import measure
from stages.engines.load.plan import Limits, Load, Target


def main() -> int:
    """Run the command line."""
    parser = _parser()
    told = parser.parse_args()
    try:
        target = Target(
            base_url=told.url,
            model=told.model,
            key=os.environ.get("OPENAI_API_KEY", ""),
            takes_ignore_eos=told.ignore_eos,
        )
        loads = [
            Load(
                scenario=each,
                concurrency=None if told.rate else told.concurrency,
                rate_per_s=told.rate,
                arrivals=told.arrivals,
                requests=told.requests,
                limit_s=told.limit,
                warmup=told.warmup,
                seed=told.seed,
                shared_prefix_tokens=told.shared_prefix,
                limits=Limits(ttft_s=told.ttft, tpot_s=told.tpot, e2e_s=told.e2e),
            )
            for each in read_scenarios(told.scenarios)
        ]
    except ValueError as error:
        parser.error(str(error))
    for load in loads:
        _tell(load, measure(target, load, clock=SystemClock(), canceled=lambda: False), told.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stages.engines.load", description=__doc__)
    parser.add_argument("url", metavar="URL", help="up to /v1")
    parser.add_argument("model", metavar="MODEL", help="what requests call it")
    parser.add_argument("scenarios", metavar="SCENARIO", help=f"as {', '.join(EXAMPLES[:4])}, or several")
    parser.add_argument("--concurrency", type=int, default=1, help="requests at any time")
    parser.add_argument("--rate", type=float, help="requests a second, whatever the answers do")
    parser.add_argument("--arrivals", choices=["poisson", "constant"], default="poisson")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each scenario")
    parser.add_argument("--warmup", type=int, default=0, help="requests before the figures")
    parser.add_argument("--seed", type=int, default=0, help="another one for each repeat on the same server")
    parser.add_argument("--shared-prefix", type=int, default=0, help="tokens that all prompts begin with")
    parser.add_argument("--ignore-eos", action="store_true", help="the engine has ignore_eos: whole answers")
    for name in ("ttft", "tpot", "e2e"):
        parser.add_argument(f"--{name}", type=float, help="seconds at most of a good answer")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each scenario")
    return parser


def _tell(load: Load, found: Measurement, as_json: bool) -> None:
    values = found.values()
    failures = dict(found.failures)
    if as_json:
        line = {"load": load.name, "tokens_from": found.tokens_from, "failures": failures, **values}
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        return
    print(f"{load.name}: tokens by {found.tokens_from}")
    for name, value in values.items():
        print(f"  {name:20} {value:,.4f}".rstrip("0").rstrip("."))
    for failure, count in failures.items():
        print(f"  {count} × {failure}: {found.said[failure]}")


if __name__ == "__main__":
    sys.exit(main())
