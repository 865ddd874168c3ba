#!/usr/bin/env python3
"""What the program says to a command line that is wrong, and to one that asks for help.

Usage: test_messages.py PROGRAM MODEL
"""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = 0


def check(holds, what):
    global failures
    if not holds:
        failures += 1
        print("FAILED:", what)


def run(*args, **options):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120, **options)


# Command line → what the first line must say, and whose help is named. None is a whole message.
WRONG = [
    ("ask x --threads abc", "--threads: expected a whole number from 0 to 1024, found 'abc'", "ask"),
    ("ask x --threads 5000", "--threads: expected a whole number from 0 to 1024, found '5000'", "ask"),
    ("ask x --max-new -1", "--max-new: expected a whole number from 1, found '-1'", "ask"),
    ("ask x --max-new 1.5", "--max-new: expected a whole number from 1, found '1.5'", "ask"),
    ("ask x --max-new", "--max-new: expected a whole number from 1, found nothing", "ask"),
    ("ask x --max-new 99999999999999", "found 99999999999999, which is too large", "ask"),
    ("ask x --repetition-penalty 0", "--repetition-penalty: expected a number from 0.01 to 100, found '0'", "ask"),
    ("ask x --temperature nan", "--temperature: expected a number from 0 to 100, found 'nan'", "ask"),
    ("ask x --top-p 1.5", "--top-p: expected a number from 0 to 1, found '1.5'", "ask"),
    ("ask x --threads 1 --threads 2", "--threads: expected one value, found 2", "ask"),
    ("ask x --device gpu", "--device gpu: unknown device 'gpu': expected cpu, cuda or reference, or several of one kind", "ask"),
    ("ask x --strategy fast", "--strategy: expected one of auto, tree, stacked, paged, flat,", "ask"),
    ("ids x --kv-memory 7Q", "--kv-memory: expected a size such as 512M or 2G, found '7Q'", "ids"),
    ("ids --mixed-rows -2", "--mixed-rows: expected a whole number from -1 to 16777216, found '-2'", "ids"),
    ("embed --max-tokens x", "--max-tokens: expected a whole number from 0, found 'x'", "embed"),
    ("bench forest --lengths 1,2", "--lengths: expected 3 values, found 2", "bench forest"),
    ("bench forest --lengths 1,b,3", "--lengths: expected a whole number from 0, found 'b'", "bench forest"),
    ("bench arrival --document 5", "--document: expected two numbers", "bench arrival"),
    ("bench attention --device gpu", "--device: expected one of cpu, reference, cuda; found 'gpu'", "bench attention"),
    ("bench constrain --regex a --json-schema b", "expected only one of them", "bench constrain"),
    # Names that are not there.
    ("aks", "no command 'aks'; did you mean 'ask'?", None),
    ("benchmark", "no command 'benchmark'; did you mean 'bench'?", None),
    ("get x", "no command 'get'; did you mean 'model get'?", None),
    ("xyzzy", "no command 'xyzzy'\n", None),
    ("bench forrest", "bench: no command 'forrest'; did you mean 'forest'?", "bench"),
    ("kv nonsense", "kv: no command 'nonsense'; expected one of ", "kv"),
    ("ask a.txt -q x --max-new-tokens 5", "ask: no option '--max-new-tokens'; did you mean '--max-new'?", "ask"),
    ("ask a.txt -q x --force", "ask: no option '--force'; did you mean '--overwrite'?", "ask"),
    ("serve --host 0.0.0.0", "serve: no option '--host'; did you mean '--address'?", "serve"),
    ("embed a.txt", "embed: expected a model (-m); 'banyan model get all-minilm-l6-v2' fetches one", "embed"),
    ("model lsit", "model: no command 'lsit'; did you mean 'list'?", "model"),
    ("help aks", "no command 'aks'; did you mean 'ask'?", "help"),
    ("ask x --thread 4", "ask: no option '--thread'; did you mean '--threads'?", "ask"),
    ("ask x --trheads=4", "ask: no option '--trheads'; did you mean '--threads'?", "ask"),
    ("ask --thread 4", "ask: no option '--thread'; did you mean '--threads'?", "ask"),
    ("ids -m x --tokeniser y", "ids: no option '--tokeniser'; did you mean '--tokenizer'?", "ids"),
    ("ids --xyzzy", "ids: no option '--xyzzy'\n", "ids"),
    ("--threads 4 ask x", "--threads: an option of ask, ", None),
    ("--xyzzy", "no option '--xyzzy'\n", None),
    # Words that are missing or too many.
    ("ids a b", "ids: unexpected argument 'b'", "ids"),
    ("bench", "bench: expected a command: ", "bench"),
    ("model", "model: expected a command: ", "model"),
    ("model get", "model get: expected 'name': ", "model get"),
    ("model show", "model show: expected 'model': ", "model show"),
]
for line, message, command in WRONG:
    result = run(*line.split())
    said = result.stderr
    names = f"banyan {command}" if command else "banyan"
    check(result.returncode == 2 and result.stdout == "", f"'{line}' ends with {result.returncode}")
    check(said.startswith("banyan: ") and message in said, f"'{line}' says {said!r}")
    check(said.endswith(f"\nTry '{names} --help'.\n"), f"'{line}' points to {said.splitlines()[-1]!r}")
    check(not re.search(r"\d{20}|\bINT\b|FLOAT|not in range|were not expected", said), f"'{line}' says {said!r}")

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "report.txt"), "w") as file:
        file.write("text")
    said = run("report.txt", cwd=folder).stderr
    check("did you mean 'banyan ask report.txt'?" in said, f"a file in place of a command: {said}")

# The overview: the same by every way of asking, with an example that works as it stands.
overview = run("--help")
check(overview.returncode == 0 and overview.stdout == run("help").stdout, "help and --help")
alone = run()
check(alone.returncode == 2 and alone.stderr == overview.stdout and alone.stdout == "", "nothing to do: the overview")
check(run("-h").stdout == overview.stdout, "-h")
lines = overview.stdout.splitlines()
check(len(lines) <= 40 and max(map(len, lines)) <= 120, "the overview fits on a screen")
example = [line.strip()[2:] for line in lines if line.startswith("  $ ")]
check(len(example) >= 2, f"the overview has an example: {example}")
with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]}
    environment.pop("BANYAN_MODEL", None)
    pasted = subprocess.run(["bash", "-e", "-c", "\n".join(example)], cwd=folder, env=environment, text=True,
                            capture_output=True, timeout=120)
    check(pasted.returncode == 0 and "Anna Walker" in pasted.stdout, f"the pasted example: {pasted}")

# Help of every command, both ways round, in lines that fit.
commands = re.search(r"\nCommands:\n(.*?)\n\n", overview.stdout, re.S).group(1)
names = re.findall(r"^  (\S+)", commands, re.M)
check({"ask", "ids", "embed", "model", "bench", "help"} <= set(names), f"commands: {names}")
for name in names:
    text = run(name, "--help").stdout
    check(f"Usage: banyan {name}" in text and text == run("help", name).stdout, f"help of {name}")
    check(not re.search(r"\bINT\b|FLOAT|TEXT:|POSITIVE|NONNEGATIVE|\{false\}", text), f"types in the help of {name}")
forest = run("bench", "forest", "--help").stdout
check("Usage: banyan bench forest" in forest and forest == run("help", "bench", "forest").stdout, "nested help")
version = run("--version").stdout
check(re.fullmatch(r"banyan \d+\.\d+\.\d+\ncommit   ([0-9a-f]{12}\+?|unknown)\nbuild    \w+, \S+ [^\n]+, \w+\n"
                   r"devices  cpu \(\w+\)(, cuda)?, reference\n", version), f"the version: {version}")

# The model when nobody names one.
row = '{"id":1,"context":"The ferry Marigold leaves at 7:45.","question":"When does the ferry Marigold leave?"}\n'


def ask(program=PROGRAM, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "BANYAN_MODEL"}
    return subprocess.run([program, "ask", "-", "--quiet"], input=row, capture_output=True, text=True, timeout=120,
                          env={**environment, **variables})


check('"7:45"' in ask().stdout, "the shipped model, found beside the program")
check('"7:45"' in ask(BANYAN_MODEL=MODEL).stdout, "BANYAN_MODEL as a path")
check('"7:45"' in ask(BANYAN_MODEL="banyan-reader-34m").stdout, "BANYAN_MODEL as a name")
wrong = ask(BANYAN_MODEL="/absent.gguf")
check(wrong.returncode == 2 and "BANYAN_MODEL: " in wrong.stderr and "/absent.gguf" in wrong.stderr, str(wrong))
with tempfile.TemporaryDirectory() as folder:
    lonely = os.path.join(folder, "banyan")
    os.symlink(PROGRAM, lonely)
    check('"7:45"' in ask(lonely).stdout, "the program behind a link")
    os.unlink(lonely)
    try:
        os.link(PROGRAM, lonely)
    except OSError:
        with open(PROGRAM, "rb") as source, open(lonely, "wb") as target:
            target.write(source.read())
        os.chmod(lonely, 0o755)
    result = ask(lonely)
    if result.returncode == 2:  # else a model is installed where this build was configured for
        check(all(word in result.stderr for word in ("-m MODEL", "BANYAN_MODEL", "banyan-reader-34m.gguf",
                                                     "share/banyan/models")), f"no model: {result.stderr}")

print(f"messages_test: {failures} failed")
sys.exit(1 if failures else 0)
