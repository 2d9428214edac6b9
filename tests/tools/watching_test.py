"""What tools/prometheus holds fits what `ectool stats --prometheus` says, and each alert does what it is for.

watching_test.py SOURCE-DIR ECTOOL LIBECCODER
Exit status: 0 all of that, 77 skipped for want of promtool, 1 otherwise.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from stand_in import check

# Of node_exporter, which serves the file of ectool.
NOT_OURS = {"node_textfile_mtime_seconds": {"file"}}
# Labels that Prometheus adds.
ADDED = {"instance", "le"}

CODES_WITH_ALL = """
import sys, eccoder
codec = eccoder.Codec(4, 2)
data = [bytearray(1 << 18) for _ in range(4)]
coding = codec.encode(data)
codec.decode({1: data[1], 2: data[2], 3: data[3], 4: coding[0]}, [0])
codec.update(0, data[1], coding)
print("ready", flush=True)
sys.stdin.read()
"""


def real_metrics(source, ectool, library):
    """Each metric of ours with the names of its labels, from a process that codes; with the labels' values as text."""
    environment = dict(os.environ, EC_LIBRARY=library, EC_CUDA_VALIDATE="always", EC_CUDA_BACKEND="cpu",
                       PYTHONPATH=str(source / "python"))
    with subprocess.Popen([sys.executable, "-c", CODES_WITH_ALL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment) as coding:
        check(coding.stdout.readline() == "ready\n", "the process that codes")
        text = subprocess.run([ectool, "stats", "--prometheus"], text=True, capture_output=True, check=True).stdout
        coding.stdin.close()
    said = promtool("check", "metrics", input=text)  # node_exporter takes them by the same parser
    check(said.returncode == 0, said.stdout + said.stderr)
    metrics = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            metrics[name + suffix] = set()
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        metrics[name] |= set(re.findall(r'(\w+)="', labels))
    for name, labels in metrics.items():
        # On other processors than x86 nobody's results are compared.
        check(labels or name in ("ec_cuda_validations_total", "ec_cuda_left_out"), f"{name} has no sample")
        if name == "ec_cuda_validations_total":
            labels |= {"process", "pid", "uid", "backend", "result"}
    return metrics


def wrong_names(expression, metrics):
    """What an expression names that is in no output."""
    known, wrong = dict(metrics, **NOT_OURS), []
    for name, labels in re.findall(r"\b((?:ec_cuda|node)_\w+)(?:\{([^}]*)\})?", expression):
        if name not in known:
            wrong.append(f"metric {name}")
            continue
        wrong += [f"label {label} of {name}" for label in re.findall(r"(\w+) *[=!]~?", labels)
                  if label not in known[name] | ADDED]
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(", ")}
    named = set().union(ADDED, *(known.get(name, ()) for name in re.findall(r"\w+", expression)))
    return wrong + [f"label {label}" for label in sorted(grouped - named)]


def expressions_of(rules):
    """Of the text of a file of rules, each alert's name with its expression."""
    return re.findall(r"- alert: (\w+)\n +expr: (?:>\n)?(.*?)\n +(?:for|labels):", rules, re.DOTALL)


def check_names(expressions, metrics):
    for place, expression in expressions:
        wrong = wrong_names(expression, metrics)
        check(not wrong, f"{place}: `ectool stats --prometheus` has no {', no '.join(wrong)}")
        # The check sees it when one is renamed.
        ours = re.search(r"ec_cuda_\w+", expression)
        if ours:
            broken = expression.replace(ours.group(), ours.group() + "x")
            check(wrong_names(broken, metrics), f"{place}: an unknown metric is not seen")


def promtool(*arguments, **options):
    return subprocess.run(["promtool", *map(str, arguments)], text=True, capture_output=True, check=False, **options)


def check_syntax(expressions, folder):
    """Prometheus understands the expressions of the dashboard, with what Grafana puts in for its variables."""
    rules = folder / "dashboard.yml"
    named = [{"record": f"panel:{i}", "expr": re.sub(r"\$__rate_interval", "5m", expression).replace("$", "")}
             for i, (_, expression) in enumerate(expressions)]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": named}]}))
    said = promtool("check", "rules", rules)
    check(said.returncode == 0, said.stdout + said.stderr)


def mutants_of(rule):
    """The rule with one condition less, in words and as text: no selection, a comparison that always holds, no `for`."""
    for found in re.finditer(r"\{\w+(?:=~?|!=)\"[^}]*\}", rule.split("labels:")[0]):
        yield f"without {found.group()}", rule[:found.start()] + rule[found.end():]
    for found in re.finditer(r"(?:>|==) (?=[\d.]+)[\d.]+", rule.split("labels:")[0]):
        yield f"{found.group()} as >= -1", rule[:found.start()] + ">= -1" + rule[found.end():]
    for found in re.finditer(r" +for: \w+\n", rule):
        yield "without `for`", rule[:found.start()] + rule[found.end():]


def labels_of(words):
    """NAME=VALUE each; osd.1 is the OSD of that number on host a, whose process has the number, too."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        found |= {name: value} if equals else {"instance": "a", "process": word, "pid": word.rpartition(".")[2]}
    return found


def test_of(name, case, rule):
    """A case of alerts_test.json as promtool takes it."""
    severity, *words = case["labels"].split()
    labels = labels_of(words)

    def text(key):
        return re.sub(r"\{\{ \$(?:labels\.(\w+)|value.*?) \}\}", lambda found: labels[found[1]] if found[1] else case["value"],
                      re.search(rf'{key}: "(.*)"', rule)[1])

    series = []
    for key, values in case["series"].items():
        metric, *words = key.split()
        metric = metric if metric.startswith("node_") else f"ec_cuda_{metric}"
        named = ",".join(f'{label}="{value}"' for label, value in labels_of(words).items())
        series.append({"series": f"{metric}{{{named}}}", "values": values})
    fired = {"exp_labels": {"severity": severity, **labels}, "exp_annotations": {key: text(key) for key in ("summary", "description")}}
    return {"interval": case.get("interval", "1m"), "input_series": series, "alert_rule_test": [
        {"eval_time": case[when], "alertname": name, "exp_alerts": [fired] if when == "fires" else []}
        for when in ("quiet", "fires", "quiet again") if when in case]}


def check_alerts(rules, cases, folder):
    """The case of each alert is green, and red without it and with each of its conditions missing."""
    head, *blocks = re.split(r"(?m)^(?=      - alert: )", rules)
    killed, alive = 0, []

    def said_of(rule):
        (folder / "rules.yml").write_text(head + rule)
        return promtool("test", "rules", folder / "tests.yml")

    for rule in blocks:
        name = re.search(r"- alert: (\w+)", rule).group(1)
        case = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test_of(name, cases[name], rule)]}
        (folder / "tests.yml").write_text(json.dumps(case))
        said = said_of(rule)
        check(said.returncode == 0, f"{name}: {said.stdout}{said.stderr}")
        none = rule.replace("expr: ", "expr: vector(0) > 0 #", 1) if "expr: >" not in rule else \
            re.sub(r"expr: >\n(?: {10}.*\n)+", "expr: vector(0) > 0\n", rule)
        for what, mutant in [("never firing", none), *mutants_of(rule)]:
            if mutant == rule or said_of(mutant).returncode == 0:
                alive.append(f"{name} {what}")
            else:
                killed += 1
    print(f"{len(blocks)} alerts, {killed} mutants seen by their cases")
    check(not alive, f"not seen: {', '.join(alive)}")


def main():
    source, ectool, library = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if shutil.which("promtool") is None:
        print("skipped: promtool is not installed (Debian: prometheus)")
        return 77
    alerts = source / "tools/prometheus/alerts.yml"
    rules = alerts.read_text(encoding="utf-8")
    said = promtool("check", "rules", alerts)
    check(said.returncode == 0, said.stdout + said.stderr)
    in_alerts = expressions_of(rules)
    check(len(in_alerts) == rules.count("- alert:"), "every alert is read")
    dashboard = json.loads((source / "tools/prometheus/dashboard.json").read_text(encoding="utf-8"))
    in_dashboard = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    check_names(in_alerts + in_dashboard, real_metrics(source, ectool, library))
    with tempfile.TemporaryDirectory() as folder:
        check_syntax(in_dashboard, pathlib.Path(folder))
        check_alerts(rules, json.loads((source / "tests/tools/alerts_test.json").read_text(encoding="utf-8")), pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
