"""Typed questions, the branches they become, and the answers read from them. Nothing here imports vLLM."""

from radixflow.decisions.answers import (
    Answer,
    ChoiceAnswer,
    DecisionResponse,
    Diagnostics,
    NoulAnswer,
    ScoreAnswer,
    Usage,
)
from radixflow.decisions.body import parse_body
from radixflow.decisions.branches import Branch, BranchPlan, Render, plan_branches, render_chat
from radixflow.decisions.choice import Choice
from radixflow.decisions.decision import Decision, parse_decision
from radixflow.decisions.encoding import EncodedBranches, encode_branches
from radixflow.decisions.errors import DecisionError, LabelError, ManifestError, ReadError
from radixflow.decisions.hints import branch_hints
from radixflow.decisions.labels import (
    Decode,
    Encode,
    LabelForm,
    LabelReader,
    check_tail,
    generation_tail,
    label_ids,
    letter_tokens,
    name_tokens,
)
from radixflow.decisions.manifest import (
    MANIFEST_FILE,
    BranchStrategy,
    LabelStrategy,
    ModelManifest,
    Strategies,
    letters_manifest,
    load_manifest,
    parse_manifest,
)
from radixflow.decisions.noul import Noul
from radixflow.decisions.question import Option, Question
from radixflow.decisions.reading import DEFAULT_NEAR_TIE_MARGIN, Reading, read_branches, read_labels
from radixflow.decisions.registry import QUESTION_TYPES, build_question, letter_sets
from radixflow.decisions.request import DecisionRequest, QuestionSpec, parse_request
from radixflow.decisions.response import BranchTokens, QuestionRead, build_response
from radixflow.decisions.score import Score
from radixflow.decisions.template import CHAT, ReadStrategy, Template, parse_template

__all__ = [
    "CHAT",
    "DEFAULT_NEAR_TIE_MARGIN",
    "MANIFEST_FILE",
    "QUESTION_TYPES",
    "Answer",
    "Branch",
    "BranchPlan",
    "BranchStrategy",
    "BranchTokens",
    "Choice",
    "ChoiceAnswer",
    "Decision",
    "DecisionError",
    "DecisionRequest",
    "DecisionResponse",
    "Decode",
    "Diagnostics",
    "Encode",
    "EncodedBranches",
    "LabelError",
    "LabelForm",
    "LabelReader",
    "LabelStrategy",
    "ManifestError",
    "ModelManifest",
    "Noul",
    "NoulAnswer",
    "Option",
    "Question",
    "QuestionRead",
    "QuestionSpec",
    "ReadError",
    "ReadStrategy",
    "Reading",
    "Render",
    "Score",
    "ScoreAnswer",
    "Strategies",
    "Template",
    "Usage",
    "branch_hints",
    "build_question",
    "build_response",
    "check_tail",
    "encode_branches",
    "generation_tail",
    "label_ids",
    "letter_sets",
    "letter_tokens",
    "letters_manifest",
    "load_manifest",
    "name_tokens",
    "parse_body",
    "parse_decision",
    "parse_manifest",
    "parse_request",
    "parse_template",
    "plan_branches",
    "read_branches",
    "read_labels",
    "render_chat",
]
