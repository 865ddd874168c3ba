"""The unit of training and evaluation: one shared text with branches, all still as text.

A `Sample` becomes the tree of methods section 1: instruction → context → question → answer. Branches never see one
another. `Slot` samples (attribute extraction) have a single output with values instead, see `train.products`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

DEFAULT_INSTRUCTION = (
    "Answer the question from the text. Answer briefly, with words from the text. "
    "If the text does not say, answer null."
)
INSTRUCTIONS = [
    DEFAULT_INSTRUCTION,
    DEFAULT_INSTRUCTION,
    DEFAULT_INSTRUCTION,
    "Answer the question with words from the text, or null.",
    "Read the text and answer the question. Write null if the answer is not in the text.",
    "Answer in as few words as possible.",
    "You are a helpful assistant.",
    "You read documents and answer questions about them briefly.",
    "Give short answers.",
    "Use only the text to answer. If it is not stated, say null.",
    "Reply with the answer only.",
    "Answer from the document. Say null when it is missing.",
    "You are a careful reader. Copy the answer from the text; answer null if there is none.",
    "Answer each question about the text below.",
    "Find the answer in the text and reply with it, nothing else.",
    "Please answer the question using the given text.",
]
CHOICE_INSTRUCTIONS = [
    DEFAULT_INSTRUCTION,
    "Answer with the letter of the right choice.",
    "Choose the right answer. Reply with its letter only.",
    "Read the text and pick the correct option. Answer with one letter.",
    "Which option is right? Give the letter.",
]
TWO_STEP_INSTRUCTIONS = [
    DEFAULT_INSTRUCTION,
    "Answer in two steps: the linking name, then the answer, separated by a semicolon.",
    "First name the link, then a semicolon, then the answer.",
    "Write the name that connects the facts; then the answer.",
]


@dataclass
class Branch:
    """One question and the tokens that follow it.

    `answer` is fed and predicted. When `denied` is set the first prediction must be `null` although `answer` is fed:
    this is what an expert without the fact sees in expert decoding (methods section 6), where another document chose
    the token. `given` is a part before the answer that is fed (a bridge that another document knows), `tail` a part
    after it; both are predicted with little weight, as guesses, and not scored.
    """

    question: str
    answer: str
    task: str
    given: str = ""
    tail: str = ""
    denied: bool = False
    weight: float = 1.0
    choices: list[str] = field(default_factory=list)
    plain: str = ""  # the question without its choices


@dataclass
class Sample:
    """`context` None: no document at all, the question follows the instruction at once (the prior of section 6)."""

    system: str | None
    context: str | None
    branches: list[Branch]
    question_lead: str = "\n\nQuestion: "
    text_weight: float = 0.02  # of predicting the text itself; enough to learn words, too little to drown the answers


@dataclass
class Extraction:
    """A product page and its attributes; `values[i]` None when the page does not say."""

    system: str
    context: str
    attributes: list[str]
    values: list[str | None]
    category: str = ""


def choice_letters(count: int) -> str:
    return "ABCDEFGHIJ"[:count]


def with_choices(question: str, choices: list[str], style: str = "{L}) {C}") -> str:
    """The question followed by one line per choice; `A) red` is the form that evaluation and `banyan ask` use."""
    lines = [
        style.replace("{L}", letter).replace("{C}", choice)
        for letter, choice in zip(choice_letters(len(choices)), choices)
    ]
    return question + "\n" + "\n".join(lines)
