"""The conversation behind one question: tries, time-out, tokens. The only user of pydantic-ai."""

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from opentelemetry.trace import Tracer
from pydantic_ai import Agent, ModelRetry, NativeOutput, StructuredDict
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from lefleet.models.client import NOT_INSTALLED, Asked, AskLimits, ModelName, Unusable
from lefleet.models.traces import CallSpan, tracer
from lefleet.models.traffic import BoundedClient, estimated_tokens, without
from lefleet.records.border import Strict

_WAIT_S = 2.0
"""How often somebody who waits is told so."""
_CLOSE_S = 1.0
"""How long a server may delay the end of a connection."""
_MOST_TOKENS = 1_000_000_000
"""A server that reports more for one call is not believed."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_NOT_THE_KEY = "the HTTP client has it"
_WITH_SCHEMA = "\n\nAnswer with one JSON object that fits this schema, and nothing else:\n"


def converse[T: Strict](
    name: ModelName,
    key: str,
    *,
    instructions: str,
    document: str,
    answer_type: type[T],
    limits: AskLimits,
    on_wait: Callable[[], None],
) -> Asked[T] | Unusable:
    """As `client.ask`, with the key and with the data as text.

    One event loop, HTTP client and agent for each question: they cannot be shared between loops.
    """
    meter = _Meter(limits)

    async def limited(spans: Tracer | None) -> T | str:
        """The answer, or why there is none."""
        try:
            http = BoundedClient(name, key)
            model = _MeteredModel(_model(name, http), name, http, meter, spans)
            agent = _agent(model, name, instructions, answer_type, limits)
        except ImportError:
            return NOT_INSTALLED
        except Exception as error:  # noqa: BLE001  # for instance SSL_CERT_FILE that names no file
            return f"the client cannot be set up ({type(error).__name__})"
        waiting = asyncio.create_task(_keep_telling(on_wait))
        try:
            async with asyncio.timeout(limits.timeout_s):
                run = await agent.run(document)
                return _converted(_without(key, run.output), answer_type)
        except TimeoutError:
            return f"no answer within {limits.timeout_s:g} s"
        except Exception as error:  # noqa: BLE001  # libraries raise whatever a server provokes
            tries = "1 try" if meter.calls == 1 else f"{meter.calls} tries"
            unusable = f"no usable answer in {tries} ({type(error).__name__})"
            return meter.reason or http.reason or unusable
        finally:
            waiting.cancel()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSE_S):
                    await http.aclose()

    with tracer() as spans, warnings.catch_warnings():
        # Those of the libraries quote the server.
        warnings.simplefilter("ignore")
        answer = _run(limited(spans))
    tokens = {"input_tokens": meter.input_tokens, "output_tokens": meter.output_tokens}
    if isinstance(answer, str):
        return Unusable(reason=answer, **tokens)
    return Asked(value=answer, **tokens)


def _run[T](main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, which would wait for the thread in which a host's name is looked up, long
    after that was given up."""
    loop = asyncio.SelectorEventLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _keep_telling(on_wait: Callable[[], None]) -> None:
    while True:
        with contextlib.suppress(OSError):
            on_wait()
        await asyncio.sleep(_WAIT_S)


def _model(name: ModelName, http: BoundedClient) -> Model:
    """The provider's client without tries and time-outs of its own, and without the key."""
    match name.provider:
        case "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            claude = AsyncAnthropic(
                api_key=_NOT_THE_KEY, base_url=name.url, http_client=http, max_retries=0
            )
            return AnthropicModel(name.model, provider=AnthropicProvider(anthropic_client=claude))
        case "google":
            from google.genai.types import HttpRetryOptions
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            gemini = GoogleProvider(
                api_key=_NOT_THE_KEY,
                base_url=name.url,
                http_client=http,
                retry_options=HttpRetryOptions(attempts=1),
            )
            return GoogleModel(name.model, provider=gemini)
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import (
        OpenAIChatModel,
        OpenAIResponsesModel,
        OpenAIResponsesModelSettings,
    )
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    openai = AsyncOpenAI(api_key=_NOT_THE_KEY, base_url=name.url, http_client=http, max_retries=0)
    if name.provider == "openai":
        # This API would keep what it is sent.
        forget = OpenAIResponsesModelSettings(openai_store=False)
        here = OpenAIProvider(openai_client=openai)
        return OpenAIResponsesModel(name.model, provider=here, settings=forget)
    if not name.base_url:
        return OpenAIChatModel(name.model, provider=OpenAIProvider(openai_client=openai))
    # Local servers know the limit of an answer by its older name.
    older = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    other = OpenAICompatibleProvider("openai-compatible", openai_client=openai, profile=older)
    return OpenAIChatModel(name.model, provider=other)


def _agent[T: Strict](
    model: Model, name: ModelName, instructions: str, answer_type: type[T], limits: AskLimits
) -> Agent[object, dict[str, Any]]:
    """pydantic-ai takes no msgspec struct: the struct's schema goes out, a dict comes back."""
    schema = msgspec.json.schema(answer_type)
    form = StructuredDict(schema, name=answer_type.__name__)
    output: Any = form
    if name.provider == "openai-chat" and name.base_url:
        # Not every local server knows tools, some ignore a schema that is not in the prompt, and
        # some models accept a single system message only.
        output = NativeOutput(form, template=False)
        instructions += _WITH_SCHEMA + msgspec.json.encode(schema).decode()
    agent: Agent[object, dict[str, Any]] = Agent(
        model,
        output_type=output,
        instructions=instructions,
        retries=limits.retries,
        model_settings=ModelSettings(max_tokens=limits.max_answer_tokens),
    )

    @agent.output_validator
    def fits(output: dict[str, Any]) -> dict[str, Any]:
        try:
            _converted(output, answer_type)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise ModelRetry(str(error)) from error
        return output

    return agent


def _converted[T: Strict](output: dict[str, Any], answer_type: type[T]) -> T:
    """By way of JSON, in which answers are kept: it has neither NaN nor infinity."""
    return msgspec.json.decode(msgspec.json.encode(output), type=answer_type)


def _without(key: str, value: Any) -> Any:
    """`value` with the key taken out of its texts, where escapes hid it before."""
    match value:
        case str():
            return without(key, value)
        case dict():
            return {_without(key, name): _without(key, one) for name, one in value.items()}
        case list():
            return [_without(key, one) for one in value]
        case _:
            return value


class _Meter:
    """Counts the calls and tokens of one question."""

    def __init__(self, limits: AskLimits) -> None:
        self._limits = limits
        self.calls = self.input_tokens = self.output_tokens = 0
        self.reason = ""
        """Why no further call is made."""

    @property
    def is_last(self) -> bool:
        """Whether no further call may follow."""
        return self.calls > self._limits.retries

    def admit(self, size: int) -> None:
        """Count a call of `size` bytes, or raise where it is not allowed: one too many, or with its
        answer more than the budget holds."""
        if self.is_last:
            self.reason = f"no usable answer in {self.calls} tries"
            raise RuntimeError(self.reason)
        needed = estimated_tokens(size) + self._limits.max_answer_tokens
        budget = self._limits.token_budget
        left = budget - self.input_tokens - self.output_tokens
        if budget and needed > left:
            self.reason = (
                f"the token budget has {max(left, 0)} left, and the question may need {needed}"
            )
            raise RuntimeError(self.reason)
        self.calls += 1

    def count(self, usage: RequestUsage | None, http: BoundedClient) -> tuple[int, int]:
        """Count a call as the server reports it; where that is missing or absurd, by its bytes."""
        used = (0, 0) if usage is None else (usage.input_tokens, usage.output_tokens)
        if not (0 < sum(used) <= _MOST_TOKENS and min(used) >= 0):
            written = min(estimated_tokens(http.received), self._limits.max_answer_tokens)
            used = (estimated_tokens(http.sent), written)
        self.input_tokens += used[0]
        self.output_tokens += used[1]
        return used


class _MeteredModel(WrapperModel):
    """Admits, counts and traces every call to a model."""

    def __init__(
        self,
        model: Model,
        name: ModelName,
        http: BoundedClient,
        meter: _Meter,
        spans: Tracer | None,
    ) -> None:
        super().__init__(model)
        self._name = name
        self._http = http
        self._meter = meter
        self._spans = spans

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        settings = model_settings or ModelSettings()
        pause_s = _FIRST_PAUSE_S
        while True:
            self._meter.admit(_size(messages, model_request_parameters))
            try:
                return await self._call(messages, settings, model_request_parameters)
            except Exception:
                if self._meter.is_last or self._http.is_final:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _call(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        span = CallSpan(self._spans, self._name, settings.get("max_tokens", 0))
        usage, failure = None, "cancelled"
        try:
            answer = await self.wrapped.request(messages, settings, parameters)
            usage, failure = answer.usage, ""
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            span.end(*self._meter.count(usage, self._http), failure)
        return answer


def _size(messages: list[ModelMessage], parameters: ModelRequestParameters) -> int:
    """About how many bytes are sent."""
    schemas = [tool.parameters_json_schema for tool in parameters.output_tools]
    if parameters.output_object is not None:
        schemas.append(parameters.output_object.json_schema)
    return len(ModelMessagesTypeAdapter.dump_json(messages)) + len(msgspec.json.encode(schemas))
