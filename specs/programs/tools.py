"""Tools for the example programs, as a team would write them: functions by the names in the manifests.

The folder `example_tools` has them by subject. Nothing there reaches a network. What is looked up is written down, and
every id is computed from what it names, so that the same call gives the same answer. To run one of the programs:

    stepward run specs/programs/good/stuck_order.yaml --input order_id=ORD-000042 --tools specs/programs/tools.py
"""

from __future__ import annotations

from example_tools.bookings import *
from example_tools.messages import *
from example_tools.money import *
from example_tools.operations import *
from example_tools.orders import *
from example_tools.people import *
from example_tools.suppliers import *
from example_tools.texts import *
