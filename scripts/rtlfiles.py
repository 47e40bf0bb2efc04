"""File lists of the RTL: reading them, and who instantiates whom.

A list (*.f) holds one source file or one `-F other.f` a line, both relative to the list's own
folder; `//` starts a comment. Verilator and slang read the lists themselves with -F; scripts that
need the names read them here. A comment that begins with `slang only` marks a file that Yosys'
own Verilog reader cannot take (the generated register block and what connects to it).
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOP_LIST = ROOT / "rtl" / "rtl.f"


class ListError(Exception):
    """A file list that cannot be read, with the place."""


@dataclass(frozen=True)
class Source:
    """One Verilog file: `path` absolute, `listed_in` the list that names it."""

    path: Path
    listed_in: Path
    slang_only: bool

    @property
    def name(self):
        """Path as a reader knows it: relative to the repository."""
        return str(self.path.relative_to(ROOT))

    @property
    def is_generated(self):
        return is_generated(self.path)

    @property
    def is_package(self):
        return self.path.stem.endswith("_pkg")


def is_generated(path):
    """Whether the file's first line says that it is generated."""
    with open(path) as file:
        return re.match(r"//.*\bgenerated\b", file.readline(), re.I) is not None


def read_list(path):
    """Returns every Source of the list `path`, its inner lists unfolded, in order."""
    sources = []
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as err:
        raise ListError(f"{path}: {err.strerror}") from err
    for number, line in enumerate(lines, 1):
        words, _, comment = line.partition("//")
        words = words.split()
        if not words:
            continue
        where = f"{Path(path).relative_to(ROOT)}:{number}"
        if words[0] == "-F" and len(words) == 2:
            sources += read_list((Path(path).parent / words[1]).resolve())
        elif len(words) == 1 and words[0].endswith((".sv", ".v")):
            file = (Path(path).parent / words[0]).resolve()
            if not file.is_file():
                raise ListError(f"{where}: {words[0]}: no such file")
            sources.append(Source(file, Path(path), comment.strip().startswith("slang only")))
        else:
            raise ListError(f"{where}: got {line.strip()!r}, wanted a .sv file or -F LIST")
    return sources


def code_of(path):
    """Text of a Verilog file without comments and strings."""
    text = path.read_text()
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


@dataclass
class Module:
    """One module: its file, the modules it instantiates, its parameters' names."""

    name: str
    source: Source
    uses: set
    parameters: set


def modules(sources):
    """Returns name -> Module of every module in `sources`."""
    code = {s: code_of(s.path) for s in sources}
    found = {}
    for source, text in code.items():
        for match in re.finditer(r"\bmodule\s+(\w+)(.*?)\bendmodule\b", text, re.S):
            header = match[2].split(";", 1)[0]
            parameters = set(re.findall(r"\bparameter\b[^,)=]*?(\w+)\s*=", header))
            found[match[1]] = Module(match[1], source, set(), parameters)
            found[match[1]].body = match[2]
    names = "|".join(sorted(map(re.escape, found), key=len, reverse=True))
    if names:
        use = re.compile(rf"\b({names})\s*(?:#\s*\(|\s\w+\s*(?:\[[^\]]*\]\s*)?\()")
        for module in found.values():
            module.uses = set(use.findall(module.body)) - {module.name}
    return found


def files_for(sources, found, top):
    """Sources that `top` needs, in list order: its modules' files and the packages they use."""
    needed = {found[m].source for m in closure(found, top)}
    packages = {s.path.stem: s for s in sources if s.is_package}
    todo = list(needed)
    while todo:
        for word in re.findall(r"\b(\w+_pkg)\s*::", code_of(todo.pop().path)):
            package = packages.get(word)
            if package and package not in needed:
                needed.add(package)
                todo.append(package)
    return [s for s in sources if s in needed]


def closure(found, name):
    """Every module that `name` instantiates, directly or not, and itself."""
    seen, todo = set(), [name]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += found[name].uses
    return seen


def roots(found):
    """Names of the modules that no other instantiates, sorted."""
    used = set().union(*(m.uses for m in found.values()))
    return sorted(set(found) - used)
