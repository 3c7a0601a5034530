"""The endpoint plugin: what vLLM loads when `VLLM_PLUGINS` names `radixflow`."""

from __future__ import annotations

import logging
from argparse import Namespace

from fastapi import FastAPI
from starlette.datastructures import State

from radixflow.decisions import LabelError
from radixflow.serving.engine import Branches
from radixflow.serving.model import ServedModel, build_model, find_manifest, runnable
from radixflow.serving.prompts import Prompts
from radixflow.serving.protocols import EngineClient
from radixflow.serving.ranks import rank_book
from radixflow.serving.router import router
from radixflow.serving.service import DecisionService
from radixflow.serving.settings import EndpointSettings, load_settings
from radixflow.serving.state import EndpointState

logger = logging.getLogger("vllm.radixflow")
PLUGIN_NAME = "radixflow"


class DecisionPlugin:
    """`/v1/systemone`, its schema and its stats, on vLLM's API server."""

    name = PLUGIN_NAME
    required_tasks = ("generate", "classify", "embed", "token_embed", "token_classify")
    """Any engine that runs a text model: one that can't be asked answers 501, and says why."""

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes."""
        app.include_router(router)

    async def init_state(self, engine_client: EngineClient | None, state: State, args: Namespace) -> None:
        """Look at the model that is served, once, before the first request.

        Raises:
            ConfigError: the endpoint's settings, or the model's manifest, are wrong: the server doesn't start.
        """
        endpoint = EndpointState(load_settings())
        state.radixflow = endpoint
        try:
            if engine_client is None:
                raise LabelError("this server has no engine; ask one that has")
            model = await _served_model(engine_client, state, args, endpoint.settings)
        except LabelError as error:
            endpoint.unavailable = error
            logger.warning("radixflow: /v1/systemone answers 501: %s", error)
            return
        models = state.openai_serving_models
        config = engine_client.vllm_config.parallel_config
        endpoint.service = DecisionService(
            model,
            Branches(engine_client, rank_book(config)),
            endpoint.metrics,
            near_tie_margin=endpoint.settings.near_tie_margin,
            find_lora=lambda name: models.lora_requests.get(name or ""),
        )
        logger.info(
            "radixflow: /v1/systemone reads %s by %s",
            model.name,
            " and ".join(str(kind) for kind in model.manifest.trained_for),
        )


async def _served_model(
    engine_client: EngineClient, state: State, args: Namespace, settings: EndpointSettings
) -> ServedModel:
    """Put together what is known of the model.

    Raises:
        LabelError: it can't be asked.
        ManifestError: its manifest is wrong.
    """
    config = engine_client.model_config
    manifest = find_manifest(str(config.model), settings.manifest)
    tasks = tuple(str(task) for task in await engine_client.get_supported_tasks())
    kept = runnable(manifest, config, tasks)
    tokenizer = None if config.skip_tokenizer_init else engine_client.get_tokenizer()
    if tokenizer is None:
        raise LabelError("the tokenizer isn't loaded (--skip-tokenizer-init); serve with it")
    from vllm.entrypoints.chat_utils import load_chat_template

    prompts = Prompts(
        tokenizer,
        chat_template=load_chat_template(args.chat_template),
        defaults=getattr(args, "default_chat_template_kwargs", None),
    )
    models = state.openai_serving_models
    return build_model(
        names=tuple(path.name for path in models.base_model_paths),
        adapters=models.lora_requests,
        manifest=kept,
        prompts=prompts,
        max_model_len=int(config.max_model_len),
    )
