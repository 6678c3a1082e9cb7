"""A console page of Prometheus in place of its web interface: targets, alerts, and the answer to any query.

The web interface is not part of Prometheus's Go module, so a build from it answers `/` with an error; console templates
are rendered by the server itself. Source: prometheus.io/docs/visualization/template_reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring import PROMETHEUS
from infra.monitoring.parts import metadata

if TYPE_CHECKING:
    from infra.manifests import Manifest

CONSOLE = f"{PROMETHEUS}-console"
"""Name of the ConfigMap with the page."""
FOLDER = "/etc/athanor/console"
"""Its folder in Prometheus."""
PATH = "/consoles/index.html"
"""Its path in URLs."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Prometheus</title>
<style>
body { font: 14px sans-serif; margin: 2em; } input { width: 60em; max-width: 80%; font-family: monospace; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 2px 1em 2px 0; border-bottom: 1px solid #ddd; }
.bad { color: #b00; font-weight: bold; }
</style>
</head>
<body>
<h1>Prometheus</h1>
<form><input name="expr" value="{{ $params.expr }}" placeholder="a PromQL expression"> <button>Ask</button></form>
{{ if $params.expr }}
<table>
{{ range query $params.expr }}
<tr><td>{{ range $name, $value := .Labels }}{{ $name }}="{{ $value }}" {{ end }}</td><td>{{ .Value }}</td></tr>
{{ else }}
<tr><td>no series</td></tr>
{{ end }}
</table>
{{ end }}
<h2>Alerts</h2>
<table>
<tr><th>alert</th><th>state</th><th>severity</th><th>about</th></tr>
{{ range query "ALERTS" | sortByLabel "alertname" }}
<tr><td>{{ .Labels.alertname }}</td>
<td{{ if eq .Labels.alertstate "firing" }} class="bad"{{ end }}>{{ .Labels.alertstate }}</td>
<td>{{ .Labels.severity }}</td><td>{{ range $name, $value := .Labels }}{{ $name }}="{{ $value }}" {{ end }}</td></tr>
{{ else }}
<tr><td>none</td></tr>
{{ end }}
</table>
<h2>Targets</h2>
<table>
<tr><th>job</th><th>instance</th><th>pod</th><th>state</th></tr>
{{ range query "up" | sortByLabel "job" }}
<tr><td>{{ .Labels.job }}</td><td>{{ .Labels.instance }}</td><td>{{ .Labels.pod }}</td>
<td{{ if eq .Value 0.0 }} class="bad"{{ end }}>{{ if eq .Value 1.0 }}up{{ else }}down{{ end }}</td></tr>
{{ end }}
</table>
<p><a href="/query">Prometheus's own pages</a>, where its image brings them ·
<a href="/api/v1/targets">targets</a> · <a href="/api/v1/rules">rules</a> as JSON</p>
</body>
</html>
"""


def console_manifest() -> Manifest:
    """Return the ConfigMap with the page; Prometheus reads it again for each request."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(CONSOLE, part=PROMETHEUS),
        "data": {PATH.rpartition("/")[2]: PAGE},
    }
