"""`migration` for a test that must not take minutes: growth is looked at each second, and no job moves before it is
known that the first one hardly learns any more.
"""

from dataclasses import replace

from headway.core.estimates import Growth
from headway.estimates.job import growth
from headway.policies.migration import Migration

growth.INTERVAL_SECONDS = 1.0
POLICY = Migration(restart=0.5, cool_down=3.0, interval=1.0, round=1.0)


def migrate(snapshot):
    known = Growth.CONVERGING in snapshot.estimates.growth()[0].tolist()
    return (POLICY if known else replace(POLICY, max_moves=0))(snapshot)
