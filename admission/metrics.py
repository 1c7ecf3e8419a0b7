"""What the line tells Prometheus."""

from prometheus_client import Counter, Gauge

JOINS = Counter("fairgate_joins", "Joins by room and outcome", ["room", "outcome"])
CLAIMS = Counter("fairgate_claims", "Claims by room and outcome", ["room", "outcome"])
GATE_ANSWERS = Counter("fairgate_gate_answers", "The gate's answers by dialect and outcome", ["dialect", "outcome"])
LINE_LENGTH = Gauge("fairgate_line_length", "Places not called yet", ["room"], multiprocess_mode="mostrecent")
LINE_CALLED = Gauge("fairgate_line_called", "The last place called", ["room"], multiprocess_mode="mostrecent")
LINE_ACTIVE = Gauge("fairgate_line_active", "Buyers with a slot", ["room"], multiprocess_mode="mostrecent")
LINE_REACHABLE = Gauge("fairgate_line_reachable", "1 while Redis answers", ["room"], multiprocess_mode="mostrecent")
