"""Imports litellm in two parts, the second only where it is needed. The only importer of litellm.

The package imports all that litellm can do: 117 MB and 1.5 s of CPU, of which provider classes need less than half. The
rest is imported when something of it is asked for: by the same statements, in the same order, into the same names. Both
are done in a thread."""

from __future__ import annotations

import ast
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from gateway.process import end_loading

_CUT_OFF: Final = ("model_context_window_exceeded", "pause_turn")
"""Reasons that litellm does not know, and would take for "stop": they say that there is more to come."""
_LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_REST: Final = "main"
"""The module of `acompletion`. The package imports it, then everything else that calls can be made with."""
_FIRST: Final = ("exceptions", "llms.", "types.")
"""The modules that litellm imports after that, and that its provider classes need."""


class _ProviderClasses(SourceFileLoader):
    """Loads the package litellm in two parts; the second when a name is asked for that the first does not have."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the first part."""
        first, self._rest = map(self._compiled, _split(ast.parse(Path(self.path).read_bytes()).body))
        self._importing = set[int]()
        self.is_whole = False
        exec(first, module.__dict__)  # noqa: S102  # the package's own source
        own: Callable[[str], Any] = module.__dict__["__getattr__"]

        def found_later(name: str) -> Any:
            try:
                return own(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
            self.load_rest(module)
            return own(name) if name not in module.__dict__ else module.__dict__[name]

        module.__dict__["__getattr__"] = found_later

    def load_rest(self, module: ModuleType) -> None:
        """Run the second part. No thread waits for another that does so: imports have locks of their own, which know
        of each other, and what is imported twice is the same."""
        thread = threading.get_ident()
        if self.is_whole or thread in self._importing:
            return
        self._importing.add(thread)
        try:
            exec(self._rest, module.__dict__)  # noqa: S102  # as above
            self.is_whole = True
        finally:
            self._importing.discard(thread)

    def _compiled(self, statements: Sequence[ast.stmt]) -> CodeType:
        return compile(ast.Module([*statements], []), self.path, "exec", dont_inherit=True)


def _split(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Split the package's statements: in what its provider classes need, and imports that they do not need."""
    first, rest = list[ast.stmt](), list[ast.stmt]()
    for each in body:
        own = (each.module or "") if isinstance(each, ast.ImportFrom) and each.level == 1 else None
        is_import = own is not None or (isinstance(each, ast.Import) and each.names[0].name.startswith("litellm."))
        is_rest = own == _REST or (bool(rest) and is_import and not (own or "").startswith(_FIRST))
        (rest if is_rest else first).append(each)
    return first, rest


class _WithoutVocabulary(SourceFileLoader):
    """Loads litellm's utilities, and reads the vocabulary of an old tokenizer, 18 MB, when somebody counts by it."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and forget the vocabulary."""
        super().exec_module(module)
        own: Callable[[str], Any] = module.__dict__["__getattr__"]
        del module.json_data, module.claude_json_str

        def found_later(name: str) -> Any:
            if name != "claude_json_str":
                return own(name)
            tokenizers = Path(self.path).parent / "litellm_core_utils" / "tokenizers"
            return (tokenizers / "anthropic_tokenizer.json").read_text("utf-8")

        module.__dict__["__getattr__"] = found_later


class _Exports(SourceFileLoader):
    """Loads a package that only exports names of its modules; each module when one of its names is asked for."""

    def exec_module(self, module: ModuleType) -> None:
        """Note where each name is."""
        body = ast.parse(Path(self.path).read_bytes()).body
        imports = [each for each in body if isinstance(each, ast.ImportFrom) and each.module]
        if len(imports) < len(body) or any(each.level != 1 and each.module != "__future__" for each in imports):
            super().exec_module(module)
            return
        owners = {name.asname or name.name: (each.module, name.name) for each in imports for name in each.names}

        def found_later(name: str) -> Any:
            if name not in owners:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            owner, own_name = owners[name]
            found = getattr(import_module(f"{module.__name__}.{owner}"), own_name)
            module.__dict__[name] = found
            return found

        module.__dict__["__getattr__"] = found_later


class _PartsOnDemand(MetaPathFinder):
    """Finds the modules that are loaded in parts."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of such a module; None leaves all others to the next finder."""
        if not name.startswith(("litellm", "openai.types")):
            return None
        loader = {"litellm": _ProviderClasses, "litellm.utils": _WithoutVocabulary}.get(name, _Exports)
        if loader is _Exports and not name.startswith("openai.types"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin and (loader is not _Exports or spec.submodule_search_locations):
            spec.loader = loader(name, spec.origin)
        return spec


@dataclass(frozen=True, slots=True, eq=False)
class Litellm:
    """All that is used of litellm. `module` has its public functions and errors; everything else is not promised by
    litellm to anybody: an upgrade of the pinned version has to check each of these names."""

    module: Any
    errors: tuple[type[Exception], ...]
    network_errors: tuple[type[Exception], ...]
    provider_of: Callable[..., Any]
    optional_params: Callable[..., dict[str, Any]]
    config_of: Callable[..., Any]
    model_info: Callable[..., Mapping[str, Any]]
    is_reasoning: Callable[[str], bool]
    mapped_error: Callable[..., Exception]
    tls: Callable[[], Any]
    chat_parser: type
    anthropic_parser: Callable[..., Any]
    anthropic_renamed: str
    anthropic_betas: Callable[..., Any]
    gemini_address: Callable[..., Any]
    gemini_body: Callable[..., dict[str, Any]]
    gemini_parser: Callable[..., Any]

    @property
    def is_whole(self) -> bool:
        """Tell whether `acompletion` is loaded, too."""
        return bool(self.module.__spec__.loader.is_whole)

    def load_rest(self) -> None:
        """Import what `acompletion` needs, and what it would import in the middle of its first call, in the event loop.
        Takes seconds."""
        with _uncollected():
            self.module.__spec__.loader.load_rest(self.module)
            import openai.resources  # noqa: F401, PLC0415
        _configure(self.module)  # its imports bring some of the names again, as they were


def load_litellm() -> Litellm:
    """Import what direct calls need of litellm, and switch off what it does besides calling providers. Takes a
    second."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import: no download of a price map
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # no search for .env files
    if not any(isinstance(finder, _PartsOnDemand) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PartsOnDemand())
    with _uncollected():
        import litellm  # noqa: PLC0415
        from litellm.anthropic_beta_headers_manager import update_request_with_filtered_beta  # noqa: PLC0415
        from litellm.litellm_core_utils.exception_mapping_utils import exception_type  # noqa: PLC0415
        from litellm.llms.anthropic.chat import handler as anthropic  # noqa: PLC0415
        from litellm.llms.custom_httpx.http_handler import get_ssl_configuration  # noqa: PLC0415
        from litellm.llms.openai.chat.gpt_5_transformation import OpenAIGPT5Config  # noqa: PLC0415
        from litellm.llms.openai.chat.gpt_transformation import OpenAIChatCompletionStreamingHandler  # noqa: PLC0415
        from litellm.llms.vertex_ai.gemini import transformation as gemini_transformation  # noqa: PLC0415
        from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as gemini  # noqa: PLC0415
        from litellm.types.utils import LlmProviders  # noqa: PLC0415
        from litellm.utils import ProviderConfigManager, get_model_info_helper, get_optional_params  # noqa: PLC0415

        get_ssl_configuration()  # reads the certificates, once
    setattr(litellm, ProviderConfigManager.__name__, ProviderConfigManager)  # a name of the second part
    _configure(litellm)
    exceptions: Any = litellm.exceptions
    return Litellm(
        module=litellm,
        errors=(exceptions.openai.OpenAIError, exceptions.httpx.HTTPError),
        network_errors=(exceptions.openai.APIConnectionError, exceptions.httpx.HTTPError),
        provider_of=litellm.get_llm_provider,
        optional_params=get_optional_params,
        config_of=lambda model, provider: ProviderConfigManager.get_provider_chat_config(model, LlmProviders(provider)),
        model_info=get_model_info_helper,
        is_reasoning=OpenAIGPT5Config.is_model_gpt_5_model,
        mapped_error=exception_type,
        tls=get_ssl_configuration,
        chat_parser=OpenAIChatCompletionStreamingHandler,
        anthropic_parser=anthropic.ModelResponseIterator,
        anthropic_renamed=anthropic.ANTHROPIC_TOOL_NAME_REVERSE_MAP_KEY,
        anthropic_betas=update_request_with_filtered_beta,
        gemini_address=gemini.VertexLLM().get_token_and_url,
        gemini_body=gemini_transformation.transform_request_body,
        gemini_parser=gemini.ModelResponseIterator,
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Import without looking for garbage: nothing of what is loaded is ever any, and not to look saves a third of the
    time now, and pauses of the event loop from now on."""
    gc.disable()
    try:
        yield
    finally:
        end_loading()


def _configure(litellm: Any) -> None:
    """Switch off what litellm does besides calling providers."""
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.drop_params = True  # a model that knows no temperature still answers
    litellm.num_retries = 0
    for reason in _CUT_OFF:
        litellm.litellm_core_utils.core_helpers._FINISH_REASON_MAP.setdefault(reason, "length")
    litellm.DEFAULT_MAX_RETRIES = 0  # what embeddings fall back to when they are told 0
    litellm._async_client_cleanup_registered = True  # `ProviderCalls.close` does it
    for name in _LOGGERS:  # they write past our scrubbing, and what the model says delta by delta
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
