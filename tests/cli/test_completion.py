#!/usr/bin/env python3
"""Shell completion and manual pages: made by the program, in step with its help, and good in the shells and
formatters that are installed (bash always). Usage: test_completion.py BANYAN"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BANYAN = os.path.abspath(sys.argv[1])
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def help_of(*words):
    """Names of the options and of the commands that the help shows."""
    text = run(BANYAN, *words, "--help").stdout
    everything = run(BANYAN, *words, "--help-all").stdout if "--help-all" in text else text
    everything = everything.split("\nschema\n")[0]  # of the command itself, not of those below it
    options = set()
    for line in re.findall(r"^  (-.*?)(?:  |$)", everything, re.MULTILINE):
        options |= set(re.findall(r"(?<!\S)--?[\w-]+", line))
    block = re.search(r"^Commands:\n((?:  .*\n)*)", text, re.MULTILINE)
    return options, re.findall(r"^  (\w\S*)", block.group(1), re.MULTILINE) if block else []


commands = {(): help_of()}
for name in commands[()][1]:
    commands[name,] = help_of(name)
    if name == "bench":
        commands[name,] = ({"-h", "--help"}, [])  # the rest is banyan-bench's own
    for below in commands[name,][1]:
        commands[name, below] = help_of(name, below)
check(len(commands) > 18 and all("--help" in options for options, _ in commands.values()), f"commands: {list(commands)}")
check("--max-new" in commands["ask",][0] and "-m" in commands["ask",][0], "options of ask are read from its help")

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    os.symlink(BANYAN, bin_folder / "banyan")
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "BANYAN_CACHE": str(folder / "cache"),
                   "HF_HUB_CACHE": str(folder / "hub"), "HOME": str(folder),
                   "LC_ALL": "C.UTF-8"}  # bash complains of a locale that is not there
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        result = run(BANYAN, "completion", shell)
        check(result.returncode == 0 and result.stderr == "", f"completion {shell}: {result.stderr}")
        scripts[shell] = folder / f"banyan.{shell}"
        scripts[shell].write_text(result.stdout)
    check(run(BANYAN, "completion", "tcsh").returncode == 2, "a shell that is not known")
    check({"completion", "man"} <= set(commands[()][1]), "completion and man are listed")

    # bash, as readline calls it: one process for all lines.
    def bash(lines):
        script = [f"source '{scripts['bash']}'"]
        for words in lines:
            quoted = " ".join("'" + word + "'" for word in words)
            script.append(f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _banyan; "
                          "printf '%s\\n' \"${COMPREPLY[@]}\"; echo ==")
        result = run("bash", "--norc", "-c", "\n".join(script), env=environment, cwd=folder)
        check(result.stderr == "", f"bash says {result.stderr[:300]}")
        return [part.split() for part in result.stdout.split("==\n")[:-1]]

    CASES = [
        ("b", ["bench"]), ("bench fo", ["forest"]), ("help mo", ["model"]), ("ask --max-n", ["--max-new"]),
        ("ask --device c", ["cpu", "cuda"]), ("ask --device = c", ["cpu", "cuda"]),
        ("ask --device =", ["cpu", "reference", "cuda"]), ("ask --threads ", []), ("ask x -o ", []),
        ("ask -m banyan-", ["banyan-reader-34m"]), ("model show ba", ["banyan-reader-34m", "banyan.bash"]),
        ("model get s", ["smollm2-135m-instruct"]), ("model p", ["path"]), ("nothing", []),
    ]
    for (line, expected), found in zip(CASES, bash([["banyan", *line.split(" ")] for line, _ in CASES])):
        found = [word for word in found if word not in ("banyan.zsh", "banyan.fish")]
        check(found == expected, f"bash completes '{line}' to {found}")
    paths = list(commands)
    for path, found in zip(paths, bash([["banyan", *path, "-"] for path in paths])):
        check(set(found) == commands[path][0], f"bash, options of {path}: {set(found) ^ commands[path][0]}")
    for path, found in zip(paths, bash([["banyan", *path, ""] for path in paths])):
        if commands[path][1]:
            check(found == commands[path][1], f"bash, commands of {path}: {found}")

    if shutil.which("zsh"):
        check(run("zsh", "-n", str(scripts["zsh"])).stderr == "", "zsh reads the script")
        # A terminal of zsh's own, in which the keys are pressed.
        driver = folder / "driver.zsh"
        driver.write_text(f"""zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PS1=; autoload -Uz compinit; compinit -D -u; source {scripts['zsh']}; stty -echo; cd {folder}; echo ready-$((1+1))'
sleep 0.2; zpty -r -m z all '*ready-2*'
zpty -n -w z $'banyan ask --max-n\\t 4 --device refe\\t \\x01print -r -- "\\x05"\\n'
zpty -r -m z line '*--max-new*reference*'
print -r -- $line
""")
        try:
            typed = run("zsh", "-f", str(driver), env=environment, cwd=folder).stdout
        except subprocess.TimeoutExpired as error:
            typed = f"nothing came: {error.stdout}"
        check("--max-new" in typed and "--device reference" in typed, f"zsh completes: {typed[-300:]!r}")
    if shutil.which("fish"):
        check(run("fish", "--no-execute", str(scripts["fish"]), env=environment).stderr == "", "fish reads the script")

        def fish(line):
            result = run("fish", "--no-config", "-c", f"source {scripts['fish']}; complete -C '{line}'", env=environment,
                         cwd=folder)
            return [word.split("\t")[0] for word in result.stdout.splitlines()]

        check(fish("banyan b") == ["bench"] and fish("banyan bench fo") == ["forest"], f"fish: {fish('banyan b')}")
        check(sorted(fish("banyan ask --device ")) == ["cpu", "cuda", "reference"], "fish completes values")
        check(fish("banyan ask --max-n") == ["--max-new"], "fish completes options")
        check("banyan-reader-34m" in fish("banyan ask -m banyan-"), "fish completes models")

    # Manual pages: one for each command, with every option of its help.
    pages = folder / "man"
    pages.mkdir()
    check(run(BANYAN, "man", "--all", str(pages)).returncode == 0, "man --all")
    names = {"-".join(("banyan", *path)) + ".1" for path in commands}
    check({page.name for page in pages.iterdir()} == names, f"pages: {sorted(p.name for p in pages.iterdir())}")
    check(run(BANYAN, "man", "banyan-ask").stdout == (pages / "banyan-ask.1").read_text(), "one page")
    check(run(BANYAN, "man", "banyan-aks").returncode == 2 and run(BANYAN, "man").returncode == 2, "no such page")
    for path, (options, _) in commands.items():
        text = (pages / ("-".join(("banyan", *path)) + ".1")).read_text()
        plain = text.replace("\\-", "-")
        missing = {option for option in options if not re.search(re.escape(option) + r"(?![\w-])", plain)}
        check(not missing and text.startswith(".TH BANYAN") and ".SH NAME" in text, f"page of {path}: no {missing}")
    everything = [str(page) for page in sorted(pages.iterdir())]
    if shutil.which("groff"):
        shown = run("groff", "-man", "-Tutf8", "-ww", "-rHY=0", *everything)
        check(shown.returncode == 0 and shown.stderr == "", f"groff warns: {shown.stderr[:300]}")
        # Bold letters come twice over, or with the escapes of a terminal.
        check("--max-new N" in re.sub(".\b|\x1b\\[[0-9;]*m", "", shown.stdout), "groff shows the options")
    if shutil.which("mandoc"):
        lint = run("mandoc", "-T", "lint", "-W", "warning", *everything).stdout
        lint = [line for line in lint.splitlines() if "missing date" not in line]
        check(not lint, f"mandoc warns: {lint[:5]}")

print(f"completion_test: {failures} failed")
sys.exit(1 if failures else 0)
