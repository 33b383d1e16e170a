"""From PTX text to a ``Program``.

Source: PTX ISA, "Syntax", "Directives" and "Instruction Operands". Read is what LLVM prints and what inline
assembly adds: blocks with registers of their own, several statements a line, statements over several lines.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from portkit.emulate.core.bounds import Bounds
from portkit.emulate.core.findings import Site, Unloadable, Unsupported, readable
from portkit.emulate.core.sources import SourceLines
from portkit.emulate.ptx.architecture import Architecture, architecture_of, check_version
from portkit.emulate.ptx.operands import Scope, operands_of, parse_operand
from portkit.emulate.ptx.program import (
    Function,
    Guard,
    Instruction,
    Operand,
    Parameter,
    Program,
    Register,
    Space,
    Symbol,
    Variable,
)
from portkit.emulate.ptx.types import TYPES, Type

VERSION = re.compile(r"^\s*\.version\s+(\d+\.\d+)", re.M)
TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.M)
LABEL = re.compile(r"([\w$]+)\s*:(?!:)\s*")
INSTRUCTION = re.compile(r"(?:@(!?)\s*([%\w$]+)\s+)?([a-z]\w*)((?:\.[\w:]+)*)\s*(.*)", re.S)
KERNEL = re.compile(r"(?:\.\w+\s+)*\.entry\s+([\w$]+)\s*(?:\((.*?)\))?(.*)", re.S)
FUNCTION = re.compile(r"(?:\.\w+\s+)*\.func\s*(?:\((.*?)\)\s*)?([\w$]+)\s*(?:\((.*?)\))?(.*)", re.S)
VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s+)*\.(global|const|shared|local|param)\s+"
    r"((?:\.\w+\s+(?:\d+\s+)?)*?)\.(\w+)\s+([\w$]+)\s*(?:\[(\d*)\])?\s*(?:=\s*(.*))?",
    re.S,
)
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
ALIGNED = re.compile(r"\.align\s+(\d+)")
ONE_LINE = re.compile(r"\.(version|target|address_size|file|loc)\b")
"""Directives that end with their line."""
COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
"""What may hold the marks of a comment, and comments."""
JUMPS = frozenset({"bra", "brx"})
"""Instructions that name labels."""
POINTS_TO = re.compile(r"\.ptr(?:\s+\.(?:global|shared|const|local))?(?:\s+\.align\s+\d+)?")
"""What a parameter that is a pointer says of its target."""
ENDS = frozenset({"ret", "exit", "bra", "brx", "trap"})
"""Instructions behind which, without a guard, nothing runs on."""
REGISTER_BYTES = Bounds(0, 1 << 19)
"""Of a thread; the largest kernel of the suite has 150,000, most of which the assembler finds no use for."""
THREADS_OF_BLOCK = Bounds(1, 1024)
ALIGNMENT = Bounds(1, 1 << 16)
ROOM = {
    Space.SHARED: Bounds(0, 228 << 10),
    Space.LOCAL: Bounds(0, 512 << 10),
    Space.CONSTANT: Bounds(0, 64 << 10),
    Space.GLOBAL: Bounds(0, 1 << 28),
}
"""Bytes of the variables of a space: what a multiprocessor, a thread or a module has; of global memory, what fits."""
PARAMETER_BYTES = Bounds(0, 32764)
"""Of all parameters of a kernel (PTX ISA, "Kernel Function Parameters")."""
CLUSTERED = re.compile(r"\.(reqnctapercluster|explicitcluster)\b")


def parse(text: str) -> Program:
    """The kernel of a text.

    Raises:
        Unloadable: the text is damaged, holds no kernel or several, or is for an architecture that is not emulated.
        Unsupported: it is of a newer version of PTX, or has a directive that is not modelled.
    """
    version, target = VERSION.search(text), TARGET.search(text)
    if version is None or target is None:
        raise Unloadable("the text has no .version and .target; is it PTX?")
    check_version(version[1])
    return _Reader(text, architecture_of(target[1])).program()


def _without_long_comments(text: str) -> str:
    """Blanks for comments that may go over several lines, so that lines keep their numbers."""
    if "/*" not in text:
        return text
    return COMMENT.sub(lambda each: re.sub(r"[^\n]", " ", each[0]) if each[0].startswith("/*") else each[0], text)


@dataclass
class _Head:
    """A kernel or function under way."""

    name: str
    entry: int
    parameters: str
    results: str = ""
    kernel: bool = False


@dataclass
class _Pending:
    """A statement that is not complete."""

    text: str = ""
    line: int = 0


@dataclass
class _Reader:
    """Walks the statements once and collects what a Program is made of."""

    text: str
    architecture: Architecture
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    registers: dict[int, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    kernels: list[_Head] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    threads: int | None = None

    def __post_init__(self) -> None:
        self.lines = _without_long_comments(self.text).splitlines()
        self.source = SourceLines()
        self.scopes = [Scope("")]
        self.globals = 0
        self.room: dict[Space, int] = {}  # bytes of the variables of a space
        self.register_bytes = 0
        self.scope_count = 0
        self.skipping = False  # within a section of data
        self.last_label = ""
        self.body = ""  # kernel or function under way
        for line in self.lines:
            if line.lstrip().startswith(".file"):
                self.source.file(line.strip())
        self._read()

    # -- statements

    def _read(self) -> None:
        pending = _Pending()
        for number, line in enumerate(self.lines, 1):
            code, _, comment = line.partition("//")
            self._line(pending, number, code, comment)
        if pending.text.strip() or len(self.scopes) > 1:
            raise Unloadable(f"the text ends within a statement or block, line {pending.line}; is it cut off?")

    def _line(self, pending: _Pending, number: int, code: str, comment: str) -> None:
        rest = code.strip()
        while rest:
            if pending.text:
                rest = self._continue(pending, rest)
                continue
            pending.line = number
            rest = self._begin(pending, rest, comment)

    def _begin(self, pending: _Pending, rest: str, comment: str) -> str:
        """What is left behind the first item of a line that begins a statement."""
        if self.skipping or rest.startswith(".section"):
            self.skipping = "}" not in rest  # such sections hold what debuggers read
            return ""
        if rest[0] in "{}":
            self._brace(rest[0], pending.line)
            return rest[1:].lstrip()
        if found := ONE_LINE.match(rest):
            if found[1] == "loc":
                self.source.location(rest, comment)
            return ""
        if match := LABEL.match(rest):
            self._label(match[1], pending.line)
            return rest[match.end() :]
        return self._continue(pending, rest)

    def _continue(self, pending: _Pending, rest: str) -> str:
        """Add to a statement, and take it in when it ends."""
        header = ".entry" in pending.text + rest or ".func" in pending.text + rest
        ends = [place for mark in ((";", "{") if header else (";",)) if (place := rest.find(mark)) >= 0]
        if not ends:
            pending.text += rest + "\n"
            return ""
        end = min(ends)
        statement, pending.text = (pending.text + rest[:end]).strip(), ""
        if header and rest[end] == "{":
            site = Site(pending.line, statement.partition("\n")[0])
            with readable(site):
                own = self._header(statement, site)
            self._brace("{", pending.line)
            self.scopes[-1].variables.update(own)
        elif statement:
            with readable(lambda: Site(pending.line, statement)):
                self._statement(statement, pending.line)
        return rest[end + 1 :].lstrip()

    def _brace(self, brace: str, line: int) -> None:
        if brace == "{":
            self.scope_count += 1
            self.scopes.append(Scope(f"#{self.scope_count}"))
        elif len(self.scopes) > 1:
            self.scopes.pop()
            if len(self.scopes) == 1:
                self._end_of_body(line)
        else:
            raise Unloadable(f"a closing brace without an opening one, line {line}")

    def _end_of_body(self, line: int) -> None:
        """Refuse code that runs past its end."""
        last = self.instructions[-1] if self.instructions else None
        if last is None or last.guard or last.opcode not in ENDS:
            raise Unloadable(f"line {line}: the code of {self.body} runs past its end; is a ret missing?")

    def _label(self, name: str, line: int) -> None:
        full = self.scopes[-1].label(name)
        self._once(full in self.labels, f"label {name}", line)
        self.labels[full] = len(self.instructions)
        self.last_label = full

    def _once(self, known: bool, what: str, line: int) -> None:
        """Refuse a name that stands for two things."""
        if known:
            raise Unloadable(f"line {line}: {what} is there twice")

    # -- directives

    def _statement(self, text: str, line: int) -> None:
        if not text.startswith("."):
            self.instructions.append(self._instruction(text, line))
        elif match := REGISTERS.fullmatch(text):
            self._declare_registers(match[1], match[2], line)
        elif text.startswith(".branchtargets"):
            names = text.removeprefix(".branchtargets").split(",")
            self.tables[self.last_label] = tuple(name.strip() + self._scopes for name in names)
        elif match := VARIABLE.fullmatch(text):
            self._declare_variable(match, line)
        elif not text.startswith((".pragma", ".alias", ".noreturn")) and ".func" not in text:
            raise Unsupported(f"directive {text.split(maxsplit=1)[0]}", Site(line, text, self.source.here))

    def _header(self, text: str, site: Site) -> dict[str, str]:
        """The head of a kernel or function, whose body follows; names that hold within."""
        if match := KERNEL.fullmatch(text):
            self.body = match[1]
            self.kernels.append(_Head(match[1], len(self.instructions), match[2] or "", kernel=True))
            if clustered := CLUSTERED.search(match[3]):
                raise Unsupported(f"directive .{clustered[1]}: clusters of blocks are not modelled")
            if found := THREADS.search(match[3]):
                self.threads = _threads(found, site)
            self.parameters = list(_parameters(match[2] or "", site))
        elif match := FUNCTION.fullmatch(text):
            results, name, parameters, _ = match.groups()
            self.body = name
            own: dict[str, str] = {}
            names = [self._function_parameters(each or "", own, site) for each in (parameters, results)]
            self.functions[name] = Function(name, len(self.instructions), *names)
            return own
        else:
            raise Unloadable(f"the head of a kernel can't be read: {text.splitlines()[0]}")
        return {}

    def _function_parameters(self, text: str, own: dict[str, str], site: Site) -> tuple[str, ...]:
        """Names of a function's own, which lie in each thread's local memory."""
        items = list(_parameters(text, site))
        for item in items:
            place = self._room(Space.LOCAL, 16, item.size, site)
            own[item.name] = f"{item.name}#{self.scope_count + 1}"
            self.variables[own[item.name]] = Variable(item.name, Space.LOCAL, place, item.size)
        return tuple(own[item.name] for item in items)

    def _declare_registers(self, kind: str, names: str, line: int) -> None:
        if kind not in TYPES:
            raise Unsupported(f"registers of type .{kind}", Site(line, f".reg .{kind} {names}", self.source.here))
        bits = max(TYPES[kind].bits, 16) if TYPES[kind] is not Type.PRED else 1
        for name in names.split(","):
            stem, _, count = name.strip().partition("<")
            many = int(count.rstrip("> ")) if count else 1
            self.register_bytes += many * max(bits, 8) // 8
            site = Site(line, f".reg .{kind} {name.strip()}")
            REGISTER_BYTES.check("bytes of registers of a thread", self.register_bytes, site)
            every = [f"{stem}{number}" for number in range(many)] if count else [stem]
            for each in every:
                self._once(each in self.scopes[-1].registers, f"register {each}", line)
                index = self.registers.get(bits, 0)
                self.registers[bits] = index + 1
                self.scopes[-1].registers[each] = Register(each, bits, index)

    def _declare_variable(self, match: re.Match[str], line: int) -> None:
        space, attributes, kind, name, count, contents = match.groups()
        if kind not in TYPES:
            raise Unsupported(f"variable of type .{kind}", Site(line, match[0], self.source.here))
        found = ALIGNED.search(attributes)
        align = int(found[1]) if found else TYPES[kind].bytes
        size = TYPES[kind].bytes * (int(count or 0) if count is not None else 1)
        raw = _contents(contents, TYPES[kind]) if contents else b""
        place, where = self._place(space, align, max(size, len(raw)), Site(line, match[0].partition("=")[0].strip()))
        known = self.scopes[-1].label(name)
        self._once(known in self.variables, f"variable {name}", line)
        self.scopes[-1].variables[name] = known
        self.variables[known] = Variable(name, where, place, max(size, len(raw)), raw)

    def _place(self, space: str, align: int, size: int, site: Site) -> tuple[int, Space]:
        ALIGNMENT.check("alignment", align, site)
        if space == "shared":
            return self._room(Space.SHARED, align, size, site), Space.SHARED
        if space in {"local", "param"}:
            return self._room(Space.LOCAL, max(align, 8), size, site), Space.LOCAL
        self._room(Space(space), align, size, site)
        self.globals += 1
        return self.globals - 1, Space(space)

    def _room(self, space: Space, align: int, size: int, site: Site) -> int:
        """Where a variable lies behind those before it."""
        start = -(-self.room.get(space, 0) // align) * align
        self.room[space] = ROOM[space].check(f"bytes of .{space.value} variables", start + size, site)
        return start

    # -- instructions

    def _instruction(self, text: str, line: int) -> Instruction:
        site = Site(line, " ".join(text.split()), self.source.here)
        match = INSTRUCTION.fullmatch(text)
        if match is None:
            raise Unsupported("not an instruction", site)
        negated, guard, opcode, modifiers, rest = match.groups()
        operands = tuple(parse_operand(part, self.scopes, site) for part in operands_of(rest))
        if opcode in JUMPS:
            operands = tuple(self._with_scopes(each) for each in operands)
        found = self._guard(guard, bool(negated), site)
        names = tuple(modifiers.split(".")[1:])
        return Instruction(opcode, names, operands, found, site, len(self.instructions))

    def _with_scopes(self, operand: Operand) -> Operand:
        """A label with the blocks it is named in, innermost first."""
        if not isinstance(operand, Symbol):
            return operand
        return Symbol(operand.name + self._scopes)

    @property
    def _scopes(self) -> str:
        """Marks of the blocks that a name stands in, innermost first."""
        return "".join(scope.mark for scope in reversed(self.scopes))

    def _guard(self, name: str | None, negated: bool, site: Site) -> Guard | None:
        if name is None:
            return None
        register = parse_operand(name, self.scopes, site)
        if not isinstance(register, Register) or register.bits != 1:
            raise Unsupported(f"guard {name} is no predicate", site)
        return Guard(register, negated)

    def program(self) -> Program:
        """Of all that was read."""
        if len(self.kernels) != 1:
            raise Unloadable(f"the text has {len(self.kernels)} kernels; one is needed")
        kernel = self.kernels[0]
        functions = {**self.functions, kernel.name: Function(kernel.name, kernel.entry, (), ())}
        return Program(
            name=kernel.name,
            architecture=self.architecture,
            instructions=tuple(_resolved(item, self.labels) for item in self.instructions),
            labels=self.labels,
            tables={
                name: tuple(_innermost(each, self.labels) for each in names) for name, names in self.tables.items()
            },
            registers=self.registers,
            parameters=tuple(self.parameters),
            variables=self.variables,
            functions=functions,
            threads=self.threads,
            shared_bytes=self.room.get(Space.SHARED, 0),
            local_bytes=-(-self.room.get(Space.LOCAL, 0) // 16) * 16,
            text=self.text,
        )


def _resolved(item: Instruction, labels: dict[str, int]) -> Instruction:
    """Branches in a block name its own labels before those around it."""
    if item.opcode not in JUMPS:
        return item
    operands = tuple(
        Symbol(_innermost(each.name, labels)) if isinstance(each, Symbol) else each for each in item.operands
    )
    return dataclasses.replace(item, operands=operands)


def _innermost(marked: str, labels: dict[str, int]) -> str:
    """``name#3#1`` stands for a label of block 3, else of block 1, else of none."""
    name, *scopes = marked.split("#")
    tried = [f"{name}#{scope}" for scope in scopes] + [name]
    return next((each for each in tried if each in labels), name)


def _threads(found: re.Match[str], site: Site) -> int:
    """Of a block, which has one dimension."""
    if int(found[2] or 1) != 1 or int(found[3] or 1) != 1:
        raise Unsupported("blocks of several dimensions", site)
    return THREADS_OF_BLOCK.check("threads of a block", int(found[1]), site)


def _parameters(text: str, site: Site) -> Iterator[Parameter]:
    offset = 0
    for part in text.split(","):
        match = VARIABLE.fullmatch(POINTS_TO.sub("", part.strip()))
        if match is None:
            if part.strip():
                raise Unloadable(f"the parameter {part.strip()} can't be read")
            continue
        _, attributes, kind, name, count, _ = match.groups()
        size = TYPES[kind].bytes * int(count or 1)
        found = ALIGNED.search(attributes) if count else None
        align = ALIGNMENT.check("alignment", int(found[1]) if found else TYPES[kind].bytes, site)
        offset = -(-offset // align) * align
        PARAMETER_BYTES.check("bytes of parameters", offset + size, site)
        yield Parameter(name, None if count else TYPES[kind], offset, size)
        offset += size


def _contents(text: str, kind: Type) -> bytes:
    """What a variable is initialised with: a number, or several in braces."""
    numbers = text.strip().strip("{}").split(",")
    return b"".join(_number(each.strip(), kind) for each in numbers if each.strip())


def _number(text: str, kind: Type) -> bytes:
    value = int(text[2:], 16) if text[:2] in {"0f", "0F", "0d", "0D"} else int(text.rstrip("U"), 0)
    return (value % (1 << kind.bits)).to_bytes(kind.bytes, "little")
