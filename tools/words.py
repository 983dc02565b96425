"""Keep words out of the prose of the package and its pages that have a plainer one (docs/glossary.md, CONTRIBUTING.md).

    python tools/words.py [FILE ...]

Looks at comments and texts of Python files and at all of Markdown; names are not prose. Exits with 1 if it finds one.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
THINGS = "event|trace|row|table|file|text|JSON|object|fact|id|key|part"
INSTEAD = {
    r"whoever": "name it: the process, the reader, the caller",
    r"somebody": "name it: a process, a peer, the user",
    r"nobody": "no process, nothing, no reader",
    r"(?:every|any)body": "every process, any peer, each reader",
    r"so many": "this many, or the number",
    r"dearer": "more expensive",
    r"law(?:\.|(?=:| \())": "Invariant:",
    r"houses?|storeys?": "package, layer",
    r"(?<![\"'{])told(?![\"'(])": "notified, recognised, reported, printed",
    r"time-stamp(?:s|ed|ing)?": "timestamp",
    r"can not": "cannot",
    r"hand(?:s|ed|ing)? (?:\w+ ){0,3}over|hands? out": "deliver, pass, send, yield",
    r"for ever(?! y)": "forever",
    r"anew": "again, or the verb: rewrite, recount, reopen",
    r"dearest": "most expensive",
    r"lets? go of": "close, release",
    r"all the same": "still",
    r"stands? for choice": "can be recommended",
    r"told apart": "distinguished",
    rf"(?<!there )(?<!where )(?:is|are) no (?:{THINGS})s?": "is not a ..., are not ...",
    r"part(?:s|ed)? (?:the )?(?:rows|events|needs|questions|executions)": "divide, group, partition, separate",
    r"parted": "divided, partitioned, separated",
    r"(?:that|which|it|input) (?:is|are) (?-i:none)|null is none": "say what it is instead: unusable, invalid, null",
}
FOUND = re.compile("|".join(rf"(?P<w{n}>\b(?:{word}))(?!\w)" for n, word in enumerate(INSTEAD)), re.IGNORECASE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are prose, with their numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), token.start[0])


def main() -> int:
    """Print each word with its place and what to write instead; return the exit code."""
    given = [Path(name).resolve() for name in sys.argv[1:]]
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    files = given or [*(ROOT / "src").rglob("*.py"), *pages]
    wrong = 0
    for path in sorted(files):
        for number, line in prose(path):
            for match in FOUND.finditer(line):
                wrong += 1
                instead = list(INSTEAD.values())[int(str(match.lastgroup)[1:])]
                print(f"{path.relative_to(ROOT)}:{number}: {match[0]!r}; write: {instead}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
