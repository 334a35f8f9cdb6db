"""Runs the first example of the README as it is, but on five real servers."""

import re
import subprocess
import sys

import kit

page = (kit.HERE.parent / "README.md").read_text()
example = re.search(r"```python\n(.*?)```", page, re.S)[1]
nodes = kit.Nodes()
try:
    named = '["redis://a", "redis://b", "redis://c"]'
    assert named in example, "the example names other servers"
    example = example.replace(named, repr(nodes.urls.split(",")))
    said = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"paid with fence \d+\n", said), said
    print("the example of the README:", said.strip())
finally:
    nodes.stop()
