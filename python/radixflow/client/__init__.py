"""A typed client of ``POST /v1/systemone``, blocking and asyncio. Needs httpx, and neither vLLM nor torch."""

from radixflow.client.asynchronous import AsyncDecisionClient
from radixflow.client.batch import DecisionCall
from radixflow.client.blocking import DecisionClient
from radixflow.client.errors import (
    DecisionClientError,
    DecisionConnectionError,
    DecisionRequestError,
    DecisionServerError,
)
from radixflow.client.questions import QuestionDict, choice, noul, score
from radixflow.client.retry import RetrySchedule
from radixflow.decisions import Answer, ChoiceAnswer, DecisionResponse, Diagnostics, NoulAnswer, ScoreAnswer, Usage

__all__ = [
    "Answer",
    "AsyncDecisionClient",
    "ChoiceAnswer",
    "DecisionCall",
    "DecisionClient",
    "DecisionClientError",
    "DecisionConnectionError",
    "DecisionRequestError",
    "DecisionResponse",
    "DecisionServerError",
    "Diagnostics",
    "NoulAnswer",
    "QuestionDict",
    "RetrySchedule",
    "ScoreAnswer",
    "Usage",
    "choice",
    "noul",
    "score",
]
