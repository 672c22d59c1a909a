"""When will it be done? The present state of a cluster, simulated ahead under the policy that decides it.

`present` takes what is believed from a snapshot of any cluster, `ahead` lets one possible future happen, `eta` makes
ranges of many. It knows neither processes nor an API server, and gets the policy from its caller.
"""
