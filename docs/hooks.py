"""What the site has beside the Markdown of this folder: the command line, the examples, pages of the repository's root.

The pages here link to files of the repository (`../examples/custom_reward.py`), so that they can be followed in a clone
and on a server for repositories. The site has a page for each of those, and the links are made to lead there.
"""

import functools
import posixpath
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".toml": "toml", ".md": "markdown", "": "make"}
BOARD = "<!-- leaderboard -->"  # where its tables are put
FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
FOR_TESTS = re.compile(r"^<!-- test:.*?-->\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    pages = {
        "contributing.md": links_from("CONTRIBUTING.md", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")),
        "changelog.md": links_from("CHANGELOG.md", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        "reference/cli.md": command_line(),
        **example_pages(),
        **leaderboard()[1],
    }
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links that leave the folder lead to the site's page of the file, and leave out what only tests read."""
    if page.file.generated_by is not None:
        return markdown
    return links_from(f"docs/{page.file.src_uri}", FOR_TESTS.sub("", markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the tables of the leaderboard into its page."""
    return html.replace(BOARD, leaderboard()[0]) if page.file.src_uri == "leaderboard.md" else html


@functools.cache
def leaderboard() -> tuple[str, dict[str, str]]:
    """Return the tables of the leaderboard, and the plots and badges that they show."""
    from aiocg.leaderboard.site import pages

    return pages(ROOT / "leaderboard")


def links_from(path: str, markdown: str) -> str:
    """Return the Markdown of a file of the repository with links that hold on the site.

    Raises:
        PluginError: when a link leads to a file that the site has no page for.
    """
    folder = posixpath.dirname(site_page(path, path)) or "."

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1]))
        if target.startswith("docs/") and path.startswith("docs/"):
            return match[0]  # mkdocs looks at these itself
        anchor = match[2] or "" if target != "README.md" else ""
        return f"]({posixpath.relpath(site_page(target, path), folder)}{anchor})"

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts)


def site_page(target: str, source: str) -> str:
    """Return the page of the site that shows a file of the repository."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return target.lower()
    if target == "README.md":
        return "index.md"
    parts = target.split("/")
    if parts[0] == "examples" and (ROOT / target).exists():
        name = parts[1].removesuffix(".py").removesuffix(".c") if len(parts) > 1 else "index"
        return f"examples/{name}.md"
    raise PluginError(f"{source} links to {target}, which the site has no page for; see docs/hooks.py")


def command_line() -> str:
    """Return the reference of the command line, as Typer writes it."""
    command = [sys.executable, "-P", "-m", "typer", "aiocg.cli.app", "utils", "docs", "--name", "aiocg"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sentences = dict(re.findall(r"^#+ `(aiocg [^`]+)`\n\n(.+?[.:])\n", text, re.MULTILINE | re.DOTALL))
    parts = re.split(r"^(?=#+ `aiocg)", text, flags=re.MULTILINE)
    for number, part in enumerate(parts):  # Typer's lists of subcommands have the beginnings of sentences

        def whole(row: re.Match[str], path: str = part.partition("`")[2].partition("`")[0]) -> str:
            return f"* `{row[1]}`: {first_sentence(sentences.get(f'{path} {row[1]}', row[2]))}"

        parts[number] = re.sub(r"^\* `([^`]+)`: (.*\.\.\.)$", whole, part, flags=re.MULTILINE)
    return "".join(parts).replace("# `aiocg`\n", "# Command line\n", 1)


def first_sentence(text: str) -> str:
    """Return the beginning of a text, to its first full stop."""
    return " ".join(text.split()).partition(". ")[0].rstrip(".:") + "."


def example_pages() -> dict[str, str]:
    """Return a page for each example, and one that lists them."""
    listed = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, capture_output=True, text=True, check=True)
    groups: dict[str, list[str]] = {}
    for path in listed.stdout.splitlines():
        groups.setdefault(path.split("/")[1], []).append(path)
    pages, rows = {}, []
    for name, paths in groups.items():
        uri = site_page(f"examples/{name}", "the list of examples")
        ordered = sorted(paths, key=lambda path: (not path.endswith("README.md"), path))
        pages[uri] = f"# examples/{name}\n\n" + "\n\n".join(map(shown, ordered)) + "\n"
        rows.append(f"- [examples/{name}]({posixpath.basename(uri)}){summary(ordered[0])}")
    pages["examples/index.md"] = "# Examples\n\nThe tests run all of them.\n\n" + "\n".join(rows) + "\n"
    return pages


def shown(path: str) -> str:
    """Return a file of the repository as Markdown."""
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    if path.endswith("README.md"):
        return links_from(path, text.partition("\n")[2].strip())
    heading = f"## `{path.split('/', 2)[2]}`\n\n" if path.count("/") > 1 else ""
    return f"{heading}```{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n```"


def summary(path: str) -> str:
    """Return what the first line of an example says of it."""
    line = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0]
    if path.endswith(".py"):
        return ": " + line.strip('" ')
    return ": " + line.strip("# ") if path.endswith(".md") else ""
