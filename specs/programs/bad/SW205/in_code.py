"""The order desk as a Python module; the checker reads the literal and never imports this file."""

from stepward.vm import Program

ORDER_DESK = Program.from_dict(
    {
        "name": "order_desk",
        "language": 1,
        "inputs": {"order_id": {"type": "integer", "minimum": 1}, "total": {"type": "number", "minimum": 0}},
        "tools": {
            "order_state": {
                "effect": "read",
                "args": {"order": {"type": "integer"}},
                "returns": {"type": "string", "enum": ["open", "shipped", "cancelled"]},
            },
            "refund_order": {
                "effect": "write",
                "idempotent": True,
                "args": {"order": {"type": "integer"}, "total": {"type": "number"}},
                "returns": {"type": "string"},
            },
        },
        "max_steps": 10,
        "steps": [
            {
                "id": "look_up",
                "type": "tool",
                "tool": "order_state",
                "args": {"order": "$order_id"},
                "output_key": "state",
                "error_step": "refused",
            },
            {
                "id": "refundable",
                "type": "condition",
                # SW205: the shop spells it "cancelled"; this half of the condition is always true
                "condition": "$state != 'canceled' and $total < 300",
                "then": "refund",
                "otherwise": "refused",
            },
            {
                "id": "refund",
                "type": "tool",
                "tool": "refund_order",
                "args": {"order": "$order_id", "total": "$total"},
                "error_step": "refused",
                "next_step": "refunded",
            },
            {"id": "refunded", "type": "end"},
            {"id": "refused", "type": "end", "outcome": "failure"},
        ],
    }
)
