"""What to do about the words with which an engine ended: a table of patterns, the first that fits; pure.

Law: only the end of a text is looked at, and a pattern reads no further than its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

LOOKED_AT_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What it was, as a code that programs compare, and what to do, for people."""

    code: str
    words: str


def _row(code: str, words: str, *patterns: str) -> tuple[Advice, re.Pattern[str]]:
    return Advice(code, words), re.compile("|".join(f"(?:{each})" for each in patterns), re.IGNORECASE)


# A cause stands before what follows from it: an engine that is refused by the hub also finds no model.
TABLE: Final = (
    _row(
        "PROXY_CREDENTIALS",
        "The proxy wants credentials: put user and password into HTTP_PROXY and HTTPS_PROXY of the pod",
        r"\b407\b.{0,40}proxy auth",
        r"proxy authentication required",
        r"tunnel connection failed: 407",
    ),
    _row(
        "OFFLINE",
        "Offline, and the model is not on the pod: put it into HF_HOME or MODEL_PATH, "
        "or submit without offline",
        r"offlinemodeisenabled",
        r"hf_hub_offline=1",
        r"offline mode is enabled",
        r"outgoing traffic has been disabled",
        r"localentrynotfounderror.{0,200}local_files_only",
    ),
    _row(
        "RATE_LIMITED",
        "The hub refuses more requests for now: give the run a token (HF_TOKEN), or wait",
        r"\b429\b.{0,20}(client error|too many)",
        r"too many requests",
        r"rate limit(ed)? (reached|exceeded)",
        r"toomanyrequests",
    ),
    _row(
        "TOKEN",
        "The model is gated, or the token is missing or wrong: accept its terms at the hub, "
        "and submit the run with the secret HF_TOKEN",
        r"gatedrepoerror",
        r"access to model .{0,200} is restricted",
        r"\b(401|403) client error",
        r"cannot access gated repo",
        r"you are trying to access a gated repo",
        r"invalid user ?name or password",
        r"huggingface\S*.{0,80}\b(401|403)\b",
        r"token .{0,20}(is invalid|has expired)\b.{0,80}(hub|hugging)",
    ),
    _row(
        "KERNEL_IMAGE",
        "This build of the engine has no code for this GPU: install one for its compute capability",
        r"no kernel image is available",
        r"is not compatible with the current pytorch installation",
        r"this pytorch has no code for sm_\d+",
        r"(requires|needs) (a )?(gpu|device)s? with compute capability",
        r"unsupported gpu architecture",
    ),
    _row(
        "DRIVER",
        "The driver or the CUDA of the pod does not fit this build of the engine: update the driver, "
        "or install an older build",
        r"cuda driver version is insufficient",
        r"nvidia driver on your system is too old",
        r"forward compatibility was attempted",
        r"libcuda\.so\.1: cannot open",
        r"found no nvidia driver",
        r"no cuda gpus are available",
        r"could not select device driver",
    ),
    _row(
        "OUT_OF_MEMORY",
        "Memory ran out: lower the context, the requests at once, the batch or the share of the GPU; "
        "or take a smaller type of weights, more GPUs, or a larger pod",
        r"cuda out of memory",
        r"outofmemoryerror",
        r"cuda error: out of memory",
        r"hip out of memory",
        r"no available memory for the cache blocks",
        r"free memory on device .{0,200} less than desired",
        r"larger than the (maximum number of tokens|available kv cache)",
        r"kv cache is needed, which is larger",
        r"not enough memory\. please try to increase --mem-fraction",
        r"cudamalloc failed: out of memory",
        r"ggml_\w{0,60}(alloc|buffer)\w{0,60}: failed to allocate",
        r"failed to allocate (compute|kv|cuda\d*|cpu)",
        r"memoryerror",
        r"std::bad_alloc",
        r"cannot allocate memory",
        r"unable to mmap",
        r"model requires more system memory",
        r"oomkilled",
        r"killed for memory",
    ),
    _row(
        "PORT_IN_USE",
        "Somebody took the port: nothing else may start servers on this pod; the run can be tried again",
        r"address already in use",
        r"errno 98\b",
        r"couldn't bind .{0,80}port",
        r"port \d+ is (already )?in use",
        r"bind: address in use",
        r"somebody listens at port",
    ),
    _row(
        "NETWORK",
        "The network was not reachable: set HTTP_PROXY and HTTPS_PROXY of the pod, or put the model on it",
        r"network is unreachable",
        r"name or service not known",
        r"temporary failure in name resolution",
        r"failed to establish a new connection",
        r"couldn't connect to .{0,20}https?://",
        r"no route to host",
        r"failed to resolve '",
        r"max retries exceeded with url",
        r"could not resolve host",
        r"connection to \S+ timed out",
        r"no such host",
        r"cannot connect to proxy",
        r"certificate verify failed",
    ),
    _row(
        "UNREACHABLE",
        "Nobody answers at that address: start the service, or look at its address",
        r"connection refused",
        r"\[errno 111\]",
        r"connection reset by peer",
        r"(server|peer) (disconnected|closed connection) without",
    ),
    _row(
        "MODEL_NOT_FOUND",
        "There is no such model: look at its name, and where it has to be "
        "(weights of the pod, MODEL_PATH, hub)",
        r"repositorynotfounderror",
        r"\b404 client error",
        r"is not a local folder and is not a valid model id",
        r"failed to open gguf file",
        r"\bhas no checkpoint\b",
        r"value not in list: ckpt_name",
        r"checkpoint .{0,200} (not found|does not exist|is not there)",
        r"model '[^'\n]{0,300}' not found",
        r"no such file or directory: '[^'\n]{0,300}"
        r"(\.gguf|config\.json|\.safetensors)",
        r"does not appear to have a file named",
        r"revisionnotfounderror",
        r"gguf_init_from_\S+: (invalid magic|bad gguf version|failed)",
        r"entrynotfounderror",
    ),
    _row(
        "PARAMETER",
        "This build of the engine does not know a parameter or its value: leave it out, "
        "or take another build",
        r"unrecognized arguments?:",
        r"invalid argument: -",
        r"error: argument -",
        r"no such option:?",
        r"unknown (argument|option|flag):?",
        r"unexpected keyword argument",
        r"invalid choice: ",
        r"must be divisible by (the )?tensor parallel",
        r"flag provided but not defined",
        r"v cache quantization requires",
        r"quantized v cache .{0,40}requires",
        r"unrecognized option",
    ),
    _row(
        "ARCHITECTURE",
        "This build of the engine cannot serve this model: take a newer build, or another engine",
        r"model architectures? .{0,200} (is|are) not supported",
        r"unknown model architecture",
        r"does not recognize this architecture",
        r"unsupported model type",
    ),
    _row(
        "IMAGE",
        "The image of the engine could not be had: look at its name, and at the pod's access to the registry",
        r"pull access denied",
        r"manifest (for \S+ )?(unknown|not found)",
        r"unable to find image .{0,200}"
        r"\n.{0,200}error response",
        r"repository does not exist or may require",
    ),
    _row(
        "DOCKER",
        "The pod's Docker cannot be used: start it, and let the user of the runs reach it",
        r"cannot connect to the docker daemon",
        r"permission denied while trying to connect to the docker",
    ),
    _row(
        "DISK",
        "The disk of the pod is full: remove weights that nobody needs, or set HF_HOME to a larger one",
        r"no space left on device",
        r"disk quota exceeded",
    ),
    _row(
        "PACKAGE",
        "The engine lacks a package: install it beside the engine",
        r"modulenotfounderror: no module named",
        r"importerror: .{0,200}(install|cannot open shared object)",
        r"missing dependencies for the serving",
    ),
)


Category = Literal["cuda_unsupported_arch", "oom", "missing_checkpoint", "unreachable", "unknown"]
CATEGORIES: Final[Mapping[str, tuple[Category, str]]] = {
    "KERNEL_IMAGE": (
        "cuda_unsupported_arch",
        "Install a PyTorch, or an engine, that is built for this GPU; or run it on the CPU",
    ),
    "OUT_OF_MEMORY": ("oom", "Take less: a smaller model, batch, context or picture; or a larger pod"),
    "MODEL_NOT_FOUND": (
        "missing_checkpoint",
        "Bring the model or checkpoint to the pod: pull it, or put its file where the engine looks",
    ),
    "OFFLINE": (
        "missing_checkpoint",
        "Bring the model to the pod, or submit without offline, so that it is fetched",
    ),
    "UNREACHABLE": (
        "unreachable",
        "Look whether something answers at that address; a service of the pod can be reset on the pod's page",
    ),
    "NETWORK": ("unreachable", "Look at the network of the pod: its proxies, its names, its firewall"),
    "PROXY_CREDENTIALS": ("unreachable", "Put user and password of the proxy into the pod's environment"),
}
# The codes of failed runs that say it without words.
OF_CODES: Final[Mapping[str, str]] = {
    "CUDA_UNSUPPORTED_ARCH": "KERNEL_IMAGE",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "MISSING_CHECKPOINT": "MODEL_NOT_FOUND",
}
UNKNOWN: Final[tuple[Category, str]] = ("unknown", "")


def category_of(code: str, message: str) -> Advice:
    """Return of which category a failure is, of a run of any kind, and what to do; unknown without words."""
    found = advice_on(message)
    told = "UNREACHABLE" if code.endswith("UNREACHABLE") else OF_CODES.get(code)
    cause = told or ("" if found is None else found.code)
    return Advice(*CATEGORIES.get(cause, UNKNOWN))


def advice_on(text: str, *, is_offline: bool = False) -> Advice | None:
    """Return what to do about the words with which an engine ended, None for words that say nothing known.

    One that `is_offline` may say that it reached no network; what it lacks is the model.
    """
    end = text[-LOOKED_AT_CHARS:]
    found = next((advice for advice, pattern in TABLE if pattern.search(end)), None)
    if is_offline and found is not None and found.code == "NETWORK":
        return next(advice for advice, _ in TABLE if advice.code == "OFFLINE")
    return found
