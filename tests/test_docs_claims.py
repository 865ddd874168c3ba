#!/usr/bin/env python3
"""The documentation's names are true: commands, options, files, links, make targets, variables, model families.

test_docs.py runs the console blocks. This test reads what is not run: text in backticks, links, and the commands of
blocks that are shown only. Usage: test_docs_claims.py BANYAN PAGE…; test_docs_claims.py --self-test BANYAN
"""
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

import test_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
FOLDERS = ("src", "include", "apps", "tests", "docs", "tools", "cmake", "examples", "eval", "train", "models", "bench",
           "web", "python", ".github", ".ci")
FILE = re.compile(r"(?:(?:%s)/[\w./*-]*|(?:[A-Z_]+\.md|Makefile|Dockerfile[\w.]*|CMakeLists\.txt|pyproject\.toml))"
                  % "|".join(map(re.escape, FOLDERS)))
# Options of other people's programs that pages name.
FOREIGN = {"--preset", "--config-settings"}
NUMBERS = dict(zip("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
                   "seventeen eighteen nineteen twenty".split(), range(1, 21)))


class Program:
    """What `banyan` says about itself: its commands, each with its options."""

    def __init__(self, path: str):
        self.path = path

    @functools.lru_cache(maxsize=None)
    def help_of(self, words: tuple[str, ...]) -> str | None:
        """Its --help and, where there are many options, --help-all; None: there is no such command."""
        usage, text = " ".join(("Usage: banyan", *words)), ""
        for option in ("--help", "--help-all"):
            done = subprocess.run([self.path, *words, option], capture_output=True, text=True, timeout=60)
            text += done.stdout if done.returncode == 0 and usage in done.stdout else ""
        return text or None

    @functools.lru_cache(maxsize=None)
    def subcommands(self, words: tuple[str, ...]) -> tuple[str, ...]:
        part = re.search(r"^Commands:\n((?:  .*\n)+)", (self.help_of(words) or "") + "\n", re.MULTILINE)
        return tuple(re.findall(r"^  ([a-z][\w-]*)", part[1], re.MULTILINE)) if part else ()

    def options(self, words: tuple[str, ...]) -> set[str]:
        lines = re.findall(r"^  -.*(?:\n {3,12}-.*)*", self.help_of(words) or "", re.MULTILINE)
        return {option for line in lines for option in OPTION.findall(line.split("   ")[0])}

    @functools.lru_cache(maxsize=None)
    def all_options(self) -> frozenset[str]:
        found, waiting = set(), [()]
        while waiting:
            words = waiting.pop()
            found |= self.options(words)
            waiting += [words + (name,) for name in self.subcommands(words)]
        return frozenset(found)

    def command_of(self, words: list[str]) -> tuple[str, ...]:
        """The longest command that `words` begin with: ("kv", "add") of kv add STORE."""
        command: tuple[str, ...] = ()
        for word in words:
            if word not in self.subcommands(command):
                break
            command += (word,)
        return command


@functools.lru_cache(maxsize=None)
def tracked_text(*suffixes: str) -> str:
    listed = subprocess.run(["git", "ls-files", *(f"*{suffix}" for suffix in suffixes)], cwd=ROOT, text=True,
                            capture_output=True).stdout.split("\n")
    names = [ROOT / name for name in listed if name and name != "tests/test_docs_claims.py"]  # it has untrue names
    if not names:  # no git here: a source tarball
        names = [path for folder in FOLDERS for suffix in suffixes for path in (ROOT / folder).rglob(f"*{suffix}")]
    return "\n".join(path.read_text(errors="replace") for path in names if path.is_file())


@functools.lru_cache(maxsize=None)
def script_options() -> frozenset[str]:
    """Options of our own scripts and of programs beside banyan."""
    parsed = re.findall(r"add_argument\(\s*(?:\"-\w\",\s*)?\"(--[a-z][a-z0-9-]*)", tracked_text(".py"))
    return frozenset(parsed + re.findall(r"\"(--[a-z][a-z0-9-]*)\"", tracked_text("bench/cuda/*.cc", "bench/cuda/*.cu")))


def families() -> list[tuple[str, str]]:
    """(name, description) of every entry of the table in src/model/families.cc."""
    text = (ROOT / "src/model/families.cc").read_text()
    return re.findall(r"\{\.name = \"([^\"]+)\".*?\.description = \"([^\"]+)\"", text, re.DOTALL)


def wrong_command(program: Program, line: str) -> str | None:
    """What is wrong with a shown `banyan …` command line; None: nothing that can be checked."""
    line = line.split(" #")[0]
    parts = re.split(r"\s(?:\||&&|;|>|2>|<|<<<)\s?", line)
    for part in parts:
        words = part.split()
        while words and re.fullmatch(r"[A-Z_]+=\S*|\$|sudo|for|do|time", words[0]):
            words = words[1:]
        if not words or pathlib.Path(words[0]).name != "banyan" or len(words) == 1:
            continue
        command = program.command_of(words[1:])
        if not command and re.fullmatch(r"[a-z]+", words[1]) and program.help_of((words[1],)) is None:
            return f"no command '{words[1]}'"
        rest = words[1 + len(command):]
        if command and program.subcommands(command) and command[0] in ("kv", "model", "bench", "eval"):
            if rest and re.fullmatch(r"[a-z]+", rest[0]):
                return f"no command '{' '.join(command)} {rest[0]}'"
        if command:
            options = program.options(command)
            unknown = [o for word in rest for o in OPTION.findall(word)[:1] if word.startswith("--") and o not in options]
            if unknown:
                return f"'banyan {' '.join(command)}' has no option {unknown[0]}"
    return None


def check_span(program: Program, span: str, page: pathlib.Path) -> str | None:
    span = " ".join(span.split())
    if FILE.fullmatch(span.rstrip("/")) or FILE.fullmatch(span):
        found = list(ROOT.glob(span.rstrip("/"))) if "*" in span else (ROOT / span).exists() or \
            (page.parent / span).exists()
        return None if found else f"names {span}, which is not there"
    if span.startswith("banyan ") and (problem := wrong_command(program, span)):
        return f"`{span}`: {problem}"
    words = span.split()
    command = program.command_of(words)
    if command and len(words) > len(command) and words[len(command)].startswith("--"):
        if problem := wrong_command(program, "banyan " + span):
            return f"`{span}`: {problem}"
    elif span.startswith("--"):
        option = OPTION.match(span)
        if option and option[0] not in program.all_options() | script_options() | FOREIGN:
            return f"names the option {option[0]}, which no command has"
    if words and words[0] == "make" and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
        if not re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
            return f"names 'make {words[1]}', which the Makefile does not have"
    for name in re.findall(r"\bBANYAN_[A-Z_]+\b|\bbanyan_[a-z]+_[a-z_]+\b", span):
        sources = tracked_text(".cc", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".inc", ".cu")
        if not re.search(rf"\b{name.removesuffix('_bucket')}\b", sources):
            return f"names {name}, which no source has"
    return None


def check_page(program: Program, page: pathlib.Path) -> list[str]:
    text, wrong = test_docs.current_text(page), []
    for _, block in FENCE.findall(text):
        for line in re.sub(r"\\\n(?:> )?", " ", block).split("\n"):
            if line.startswith("$ ") and (problem := wrong_command(program, line)):
                wrong.append(f"{line}: {problem}")
    prose = FENCE.sub("", text)
    wrong += [problem for span in SPAN.findall(prose) if (problem := check_span(program, span, page))]
    for target in LINK.findall(prose):
        if not re.match(r"[a-z]+:|#", target) and not (page.parent / target.split("#")[0]).exists():
            wrong.append(f"links to {target}, which is not there")
    count = len(families())
    for word in re.findall(r"(?<![\w-])(\w+) families\b", prose):
        stated = int(word) if word.isdigit() else NUMBERS.get(word.lower())
        if stated is not None and stated != count:
            wrong.append(f"says '{word} families'; src/model/families.cc has {count}")
    return wrong


def check_families() -> list[str]:
    """Models that the code's table names are named to readers: in README or docs/models.md by the first word of each, and
    in the table of docs/models.md by model_type."""
    models = (ROOT / "docs/models.md").read_text()
    pages = (ROOT / "README.md").read_text() + models
    names = [part.split()[0] for _, description in families() for part in re.split(r",\s*", description) if part]
    wrong = [f"README.md: does not name {name}, which src/model/families.cc has" for name in names if name not in pages]
    rows = "".join(line for line in models.split("\n") if line.startswith("|"))
    return wrong + [f"docs/models.md: no row for `{name}`, which src/model/families.cc has"
                    for name, _ in families() if f"`{name}`" not in rows]


def self_test(program: Program) -> list[str]:
    """Every kind of untrue claim is found, and none that is true."""
    false = ["`banyan model fetch`", "`banyan frobnicate`", "`banyan ask --no-such`", "`--no-such-option`",
             "`src/no/such.h`", "`make no-such`", "`BANYAN_NO_SUCH`", "`banyan_no_such_total`", "`extract --no-such`",
             "`NO_SUCH.md`", "[x](no-such.md)", "ninety-nine, eight hundred and 99 families",
             "```console\n$ cat x | banyan ask in.jsonl --no-such 3\n```"]
    true = ["`banyan model get NAME`", "`--max-new`", "`banyan kv add STORE --limit 2G`", "`src/layers.txt`", "`make test`",
            "`extract --stack`", "[x](neighbour.md)", f"{len(families())} families", "`docs/*.md`",
            "```console\n$ BANYAN_CPU=neon banyan ask in.jsonl --copy | head -2\n```"]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        page, neighbour = pathlib.Path(folder) / "page.md", pathlib.Path(folder) / "neighbour.md"
        neighbour.touch()
        for text, expected in [(t, True) for t in false] + [(t, False) for t in true]:
            page.write_text(text + "\n")
            if bool(check_page(program, page)) != expected:
                wrong.append(f"self-test: {text!r} was {'not ' if expected else ''}called untrue")
    return wrong


def main() -> int:
    if sys.argv[1] == "--self-test":
        problems = self_test(Program(sys.argv[2]))
    else:
        program, pages = Program(sys.argv[1]), sys.argv[2:]
        problems = check_families()
        problems += [f"{name}: {problem}" for name in pages for problem in check_page(program, ROOT / name)]
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"docs_claims_test: {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
