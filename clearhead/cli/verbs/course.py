"""`clearhead course`: write the parts of a Transformer yourself, and have them checked."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...config.messages import say
from ..output import new_file_of, to_json
from ..parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ...course.grade import Grade

_FOLDER, _PAGE, _VERIFY = "course", "course.html", "verify"


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default=_FOLDER, metavar="DIR", help=f"your folder (default: {_FOLDER})")
    parser.add_argument("page", nargs="?", metavar="FILE", help="with verify: the page of a finished course")
    text = "train a translator with your functions, and write a page with it (needs all exercises)"
    parser.add_value("--finish", "FILE", text, type=new_file_of("html"))
    text = "train a small translator with and without a part: scale, mask, positions, residual, norm or warmup"
    parser.add_value("--break", "PART", text)
    parser.add_flag("--json", "print the grades as JSON")


def _run(options: Options) -> None:
    from ...course.grade import EXERCISES, grade_all, open_course

    if options.folder == _VERIFY and options.finish is None and vars(options)["break"] is None:
        _verify(options)
        return
    if options.page is not None:
        fix = f"clearhead course {_VERIFY} {options.page}"
        raise UsageError(f"{options.page} is unexpected", expected="one folder", fix=fix, value=options.page)
    folder, broken = Path(options.folder), vars(options)["break"]
    if not options.folder.strip():
        raise UsageError("the name of the folder is empty", fix="name a folder", name="DIR", value=options.folder)
    if broken is not None and (options.json or options.finish is not None):
        raise UsageError(
            "--break can't be combined with other options",
            fix="leave --json and --finish out",
            name="--break",
            value=broken,
        )
    if broken is not None:
        _break(broken, folder)
        return
    is_new = open_course(folder)
    first = folder / EXERCISES[0].name
    if is_new:
        say(f"wrote {len(EXERCISES)} exercises to {folder}")
        say(f"  read {first}.md, complete {first}.py, and run this command again")
    grades = grade_all(folder)
    page = folder / _PAGE
    if not is_new:
        _write_page(page, grades)
    if options.json:
        print(to_json({"exercises": [it.to_dict() for it in grades]}))
    elif not is_new:
        print(_lines(grades))
        left = next((folder / it.name for it in grades if it.status != "passed"), None)
        done = sum(it.status == "passed" for it in grades)
        say(f"{done} of {len(grades)} exercises are done; your numbers: {page}")
        if left is not None:
            say(f"next: {left}.py, explained in {left}.md")
        elif options.finish is None:
            say(f"next: clearhead course {folder} --finish {folder / 'finished.html'}")
    if options.finish is not None:
        from ...course.finish import finish
        from ...folder.atomic import save_file

        save_file(options.finish, finish(folder, grades).encode())
        say(f"wrote {options.finish}; to check it again: clearhead course {_VERIFY} {options.finish}")


def _break(part: str, folder: Path) -> None:
    """Write the page of the lab about a part to the folder of a course, which may be new."""
    from ...course.grade import open_course
    from ...course.lab import break_it, check_part
    from ...folder.atomic import write_file

    check_part(part)
    open_course(folder)
    page = folder / f"without-{part}.html"
    write_file(page, break_it(part, folder / "lab" / part).encode())
    say(f"wrote {page}")


def _verify(options: Options) -> None:
    """Grade the functions in a page again."""
    from ...course.finish import check_again
    from ...errors import DataError

    if options.page is None:
        raise UsageError("no page is given", expected="the page of a finished course", fix=f"name it after {_VERIFY}")
    grades = check_again(Path(options.page))
    print(to_json({"exercises": [it.to_dict() for it in grades]}) if options.json else _lines(grades))
    failed = [it.name for it in grades if it.status != "passed"]
    if failed:
        expected = "laws that hold for all exercises"
        raise DataError(f"{options.page}: {', '.join(failed)} failed", expected=expected, name=options.page)


def _lines(grades: "list[Grade]") -> str:
    return "\n".join(it.render() for it in grades)


def _write_page(path: Path, grades: "list[Grade]") -> None:
    from ...course.grade import course_page
    from ...folder.atomic import write_file

    write_file(path, course_page(grades).encode())


VERB = Verb(
    name="course",
    summary="write the parts of a Transformer yourself, in ten exercises that are checked",
    usage="[DIR] [options] | verify FILE",
    examples=(
        "clearhead course",
        "clearhead course --finish course/finished.html",
        "clearhead course verify course/finished.html",
    ),
    add_options=_add_options,
    run=_run,
)
