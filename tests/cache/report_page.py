"""A report on a cache, and what is in its page for whoever reads it without a browser."""
import base64
import hashlib
import html.parser
import json

import numpy as np

from tool_support import tool


def report(cache, *options):
    page = cache.parent / "x.html"
    result = tool("report", page, cache, "--overwrite", *options)
    assert result.returncode == 0, result.stderr
    return page.read_text()


class Page(html.parser.HTMLParser):
    """Checks that tags close in order and that nothing in them leads out of the page."""
    VOID = {"meta", "img"}
    KNOWN = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "nav", "a", "main", "section",
             "dl", "dt", "dd", "div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "svg", "g", "line", "rect",
             "circle", "polyline", "polygon", "path", "text", "img", "span", "script"}

    def __init__(self, text):
        super().__init__()
        self.text = text
        self.open, self.words, self.pictures, self.script, self.data = [], "", [], "", []
        self.feed(text)
        self.close()
        assert self.open == []
        digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'\"" in text, "the only script that may run"

    def handle_starttag(self, tag, attributes):
        assert tag in self.KNOWN, tag
        if tag == "script" and attributes:
            assert attributes == [("type", "application/json")]
            self.data.append("")
        self.running = tag == "script" and not attributes
        if tag == "img":  # bytes that lie in the page itself
            attributes = dict(attributes)
            source = attributes.pop("src")
            assert source.startswith("data:image/jpeg;base64,")
            self.pictures.append((base64.b64decode(source[source.index(",") + 1:], validate=True), attributes["alt"]))
            attributes = attributes.items()
        for name, value in attributes:
            assert name not in ("src", "srcset", "data", "action") and not name.startswith("on"), (tag, name)
            assert not name.endswith("href") or value.startswith("#"), (tag, value)
            assert "url(" not in value
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open[-1:] != ["script"]:
            self.words += text
        elif self.running:
            self.script += text
        else:
            self.data[-1] += text

    def table(self):
        """What the script makes its table of: {column: values of all rows}, and the pictures of rows."""
        data = json.loads(self.data[0])
        columns = {}
        for column in data["columns"]:
            if "codes" in column:
                codes = np.frombuffer(base64.b64decode(column["codes"]), f"<u{column['width']}")
                values = [column["values"][code] for code in codes]
            else:
                values = column.get("values")
            for kind, dtype in [("numbers", "<f8" if column.get("exact") else "<f4"), ("rows", "<u4")]:
                if kind in column:
                    values = np.frombuffer(base64.b64decode(column[kind]), dtype).tolist()
            columns[column["name"]] = values
        return columns, data["pictures"]
