"""``radixflow.Scheduler``: one name for the sync and the async engine.

vLLM picks a scheduler class by name and only warns when a sync class meets an async engine, which then
halves its batches. Here ``__new__`` reads the configuration and returns the variant that fits.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from radixflow.config import RadixFlowConfig, load_config
from radixflow.engine.compat import RELEASES, check_relied_on, known_sha256, public_version
from radixflow.engine.controller import Controller
from radixflow.engine.oversized import OversizedWatch
from radixflow.engine.recorder import Recorder
from radixflow.engine.rewrite import Rewrite
from radixflow.engine.support import check_configuration, prepare_rewrite
from radixflow.engine.uncomputed import before_preemption
from radixflow.errors import UnsupportedError
from radixflow.partial_hits.fingerprint import fingerprint
from radixflow.partial_hits.records import find
from radixflow.policies import Policy, resolve_policy

logger = logging.getLogger("vllm.radixflow")


@functools.cache
def rewritten() -> Rewrite:
    """Rewrite the running vLLM's ``schedule()``, once a process.

    Raises:
        UnsupportedError: this vLLM isn't one RadixFlow knows.
    """
    return prepare_rewrite(VllmScheduler.schedule, vllm.__version__)


def config_of(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:  # noqa: ANN401
    """Find the ``VllmConfig`` among a scheduler's constructor arguments."""
    return keywords["vllm_config"] if "vllm_config" in keywords else arguments[0]


def data_parallel_rank(vllm_config: Any) -> int:  # noqa: ANN401
    """Return which of several engines this is; the first where the release doesn't say."""
    return int(getattr(vllm_config.parallel_config, "data_parallel_index", 0))


class Scheduler(VllmScheduler):
    """vLLM's scheduler, with a policy that holds, defers and plans.

    Settings: :class:`radixflow.config.RadixFlowConfig`. ``clock`` may be replaced on an instance.

    Raises:
        UnsupportedError: this vLLM or this engine's configuration isn't supported and ``on_unsupported`` is
            ``refuse``.
        ConfigError, PolicyError: the settings are not usable.
    """

    clock: Callable[[], float]
    """Monotonic seconds, the only clock our decisions read."""
    # On the class, because vLLM builds instances without __init__ and calls methods on stubs.
    controller: Controller | None = None
    recorder: Recorder | None = None
    oversized: OversizedWatch

    def __new__(cls, *arguments: Any, **keywords: Any) -> Scheduler:  # noqa: ANN401
        """Return the variant that the engine needs; a subclass of a user's own is taken as it is."""
        chosen: type[Scheduler] = cls
        if cls is Scheduler and (arguments or keywords):
            scheduling = config_of(arguments, keywords).scheduler_config
            chosen = AsyncVariant if scheduling.async_scheduling else SyncVariant
        instance: Scheduler = object.__new__(chosen)
        return instance

    def __init__(self, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401
        """Check the engine, then build vLLM's scheduler and bind the policy to it."""
        vllm_config = config_of(arguments, keywords)
        settings = load_config(vllm_config.additional_config)
        policy = self._prepare(vllm_config, settings)
        super().__init__(*arguments, **keywords)
        if self.mamba_partial_cache_hit and not policy.is_native:
            policy = self._prepare_inside(settings, policy)
        self.clock = time.monotonic
        self.recorder = Recorder(
            settings,
            policy.name,
            known_sha256(VllmScheduler.schedule),
            data_parallel_rank(vllm_config),
        )
        if not policy.is_native:
            self.controller = Controller(self, settings, policy, self.recorder, self._stores_inside(settings, policy))
            self.oversized = OversizedWatch()
            self._announce(settings, policy)

    def _prepare(self, vllm_config: Any, settings: RadixFlowConfig) -> Policy:  # noqa: ANN401
        """Return the policy to run; where RadixFlow may not run, refuse or fall back to vLLM's behaviour."""
        policy = resolve_policy(settings)
        native = Policy("native")
        try:
            if not policy.is_native:
                rewritten()
                check_configuration(vllm_config)
            self._check_variant(vllm_config)
        except UnsupportedError as error:
            if settings.on_unsupported == "refuse":
                raise
            logger.warning("radixflow: running as vLLM does, because: %s", error)
            return native
        if not policy.is_native and not vllm_config.cache_config.enable_prefix_caching:
            logger.warning(
                "radixflow: prefix caching is off, so requests share nothing and %r has nothing to do; "
                "running as vLLM does. Pass --enable-prefix-caching (off by default for hybrid pooling models)",
                policy.name,
            )
            return native
        return policy

    def _check_variant(self, vllm_config: Any) -> None:  # noqa: ANN401
        """Refuse a sync class in an async engine, and the reverse."""
        wants_async = bool(vllm_config.scheduler_config.async_scheduling)
        is_async = isinstance(self, VllmAsyncScheduler)
        if wants_async != is_async:
            raise UnsupportedError(
                f"{type(self).__name__} is {'an async' if is_async else 'a sync'} scheduler, but async_scheduling is "
                f"{wants_async}: batches would be halved or tokens counted twice. Name radixflow.Scheduler, which "
                f"picks the variant, or pass {'--async-scheduling' if is_async else '--no-async-scheduling'}"
            )

    @staticmethod
    def _prepare_inside(settings: RadixFlowConfig, policy: Policy) -> Policy:
        """Return the policy to run where hits may end inside a block: vLLM's managers are then told what to do."""
        try:
            check_relied_on(RELEASES[public_version(vllm.__version__)], inside_blocks=True)
        except UnsupportedError as error:
            if settings.on_unsupported == "refuse":
                raise
            logger.warning("radixflow: running as vLLM does, because: %s", error)
            return Policy("native")
        return policy

    def _stores_inside(self, settings: RadixFlowConfig, policy: Policy) -> bool:
        """Whether states may be stored inside blocks; where a unit is set and they may not, say why."""
        if not self.mamba_partial_cache_hit or policy.junctions is None or settings.partial_states != "auto":
            return self.mamba_partial_cache_hit and settings.partial_states == "on"
        try:
            digest = fingerprint(self.vllm_config, vllm.__version__).digest
            verdict = find(digest)
        except Exception as error:  # noqa: BLE001 - a record that can't be read never stops an engine
            reasons = [f"its records can't be read ({error!r})"]
        else:
            reasons = ["it was never checked with this model here"]
            if verdict is not None:
                reasons = verdict.reasons(self.hash_block_size, self.block_size)
        if reasons:
            logger.warning(
                "radixflow: --prefix-match-unit is %d, but states inside a block stay off: %s. Run `radixflow doctor "
                'MODEL [flags] --check-partial-hits`, or set "partial_states": "on" to store them unchecked, "off" to '
                "do without and hear nothing",
                self.hash_block_size,
                "; ".join(reasons),
            )
        return not reasons

    def _announce(self, settings: RadixFlowConfig, policy: Policy) -> None:
        """Say once what will happen, and what can't."""
        inside = self.controller is not None and self.controller.stores_inside
        logger.info(
            "radixflow: policy %s, hold at most %g ms, %s engine; a prefix below %s of %d tokens isn't shared",
            policy.name,
            settings.wait_ms if policy.admission is not None else 0.0,
            "async" if isinstance(self, VllmAsyncScheduler) else "sync",
            "one unit" if inside else "one block",
            self.hash_block_size if inside else self.block_size,
        )
        if policy.traversal is not None and not self.has_mamba_layers:
            logger.info(
                "radixflow: this model has no recurrent state, so deferral and junctions have nothing to do; "
                "only admission differs from vLLM"
            )

    # vLLM's interface

    # Arguments are handed on as they come: as a native fallback this class also runs on other releases.

    def schedule(self, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        """Schedule one round; see vLLM's ``Scheduler.schedule``."""
        recorder, controller = self.recorder, self.controller
        if recorder is None:
            return super().schedule(*arguments, **keywords)
        start = time.perf_counter_ns()
        if controller is None:
            output = super().schedule(*arguments, **keywords)
            recorder.observe(self, output, time.perf_counter_ns() - start)
        else:
            run = rewritten().function if controller.begin() else VllmScheduler.schedule
            output = run(self, *arguments, **keywords)
            controller.end(output, time.perf_counter_ns() - start)
        return output

    def add_request(self, request: Any) -> None:  # noqa: ANN401
        """Queue a request; a continued streaming session stays the request it was."""
        known = request.request_id in self.requests
        super().add_request(request)
        if self.controller is not None and not known:
            self.controller.added(request)
            self._watch_size(request)

    def _watch_size(self, request: Any) -> None:  # noqa: ANN401
        try:
            self.oversized.look(self, request)
            if self.oversized.seen and self.recorder is not None:
                self.recorder.totals["oversized"] = self.oversized.seen
        except Exception as error:  # noqa: BLE001
            if self.controller is not None:
                self.controller._fail("oversized", error)

    def update_from_output(self, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        """Take a round's answer; see vLLM's ``Scheduler.update_from_output``."""
        if self.controller is not None:
            self.controller.answered()
        return super().update_from_output(*arguments, **keywords)

    def reset_prefix_cache(self, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        """Reset the cache; what was found in it before is not found again."""
        if self.controller is not None:
            self.controller.cache_was_reset()
        return super().reset_prefix_cache(*arguments, **keywords)

    def shutdown(self) -> None:
        """Stop, and write out what the trace still holds."""
        super().shutdown()
        if self.recorder is not None:
            self.recorder.close()

    def _preempt_request(self, request: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401
        if self.controller is not None:
            before_preemption(self.controller, self.kv_cache_manager, request)
            if self.controller.partial is not None:
                self.controller.partial.forget(request.request_id)
        super()._preempt_request(request, *arguments, **keywords)
        if self.controller is not None:
            self.controller.added(request)

    def _free_request(self, request: Any, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        if self.controller is not None:
            self.controller.left(request.request_id)
        return super()._free_request(request, *arguments, **keywords)

    def _get_local_prefix_cache_hit(self, request: Any) -> Any:  # noqa: ANN401
        if not isinstance(self, Scheduler):
            # vLLM's tests call this one on stubs, where super() finds no way up.
            return VllmScheduler._get_local_prefix_cache_hit(self, request)
        blocks, cached_tokens, junction, diverged = super()._get_local_prefix_cache_hit(request)
        controller = self.controller
        if controller is not None and controller.sees_chunks:
            junction = controller.first_chunk(request, cached_tokens, junction)
        return blocks, cached_tokens, junction, diverged

    def _mamba_block_aligned_split(
        self,
        request: Any,  # noqa: ANN401
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        arguments = (request, num_new_tokens, num_new_local_computed_tokens, num_external_computed_tokens)
        controller = self.controller if isinstance(self, Scheduler) else None
        if controller is None or controller.planner is None:
            return int(VllmScheduler._mamba_block_aligned_split(self, *arguments))
        # A request that leaves the queue was planned when its prefix was looked up.
        if request.num_computed_tokens and request.is_prefill_chunk:
            controller.next_chunk(request)
        tokens = int(super()._mamba_block_aligned_split(*arguments))
        # Whoever leaves the queue and gets all it was offered needs no further thought.
        whole = tokens == num_new_tokens and not request.num_computed_tokens
        if num_external_computed_tokens or (whole and not controller.stores_inside):
            return tokens
        start = request.num_computed_tokens + num_new_local_computed_tokens
        return controller.chunk_tokens(request, start, num_new_tokens, tokens)

    # Questions of the edited schedule()

    def _radixflow_stop(self, token_budget: int) -> bool:
        return self.controller is not None and self.controller.stops(token_budget)

    def _radixflow_gate(self, request: Any) -> bool:  # noqa: ANN401
        controller = self.controller
        if controller is None or not (controller.holding or controller.promised):
            return False
        return controller.is_passed(request)

    def _radixflow_allocation(self, request: Any, new_computed_blocks: Any) -> bool:  # noqa: ANN401
        return self.controller is not None and self.controller.passes_allocation(request, new_computed_blocks)

    def _radixflow_zero(self, request: Any) -> bool:  # noqa: ANN401
        return self.controller is not None and self.controller.passes_zero(request)


class SyncVariant(Scheduler):
    """What ``radixflow.Scheduler`` is in a synchronous engine."""


class AsyncVariant(Scheduler, VllmAsyncScheduler):
    """What ``radixflow.Scheduler`` is in an asynchronous engine."""
