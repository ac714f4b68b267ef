"""What the keeper thinks: sd_notify, restart budgets, the life of one workload, the wire to agentd. Pure: time is handed in.

A datagram (`notify.parse`), an exit or an order (`messages.read`) goes into the `Lifecycle` of its workload; out come effects
(`Spawn`, `Signal`, `WriteProfile`, `Tell`), which `agent.tending` carries out.
"""
