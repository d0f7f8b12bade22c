"""Expense reimbursement as a Python literal: the checker reads it without importing this file."""

from stepward.vm import Program

program = Program.from_dict(
    {
        "name": "expense_reimbursement",
        "description": "Pays an expense report that adds up; above the limit of its category a manager decides.",
        "language": 1,
        "inputs": {
            "report_id": {
                "type": "string",
                "pattern": "^EXP-[0-9]{6}$",
            },
            "employee_id": {
                "type": "string",
                "pattern": "^EMP-[0-9]{6}$",
            },
            "amount": {
                "type": "number",
                "minimum": 0.01,
                "maximum": 20000,
            },
            "category": {
                "type": "string",
                "enum": ["meals", "travel", "equipment", "other"],
            },
            "receipt_count": {
                "type": "integer",
                "minimum": 0,
            },
        },
        "tools": {
            "get_expense_report": {
                "effect": "read",
                "idempotent": True,
                "args": {
                    "report_id": {
                        "type": "string",
                    },
                },
                "returns": {
                    "type": "object",
                    "properties": {
                        "total": {
                            "type": "number",
                        },
                        "lines": {
                            "type": "integer",
                            "minimum": 0,
                        },
                    },
                    "required": ["total", "lines"],
                },
            },
            "ask_approver": {
                "effect": "none",
                "idempotent": True,
                "args": {
                    "subject_id": {
                        "type": "string",
                    },
                    "role": {
                        "type": "string",
                    },
                },
                "returns": {
                    "type": "object",
                    "properties": {
                        "approved": {
                            "type": "boolean",
                        },
                    },
                    "required": ["approved"],
                },
                "suspends": True,
            },
            "pay_employee": {
                "effect": "write",
                "idempotent": False,
                "args": {
                    "employee_id": {
                        "type": "string",
                    },
                    "amount": {
                        "type": "number",
                    },
                },
                "returns": {
                    "type": "object",
                    "properties": {
                        "payment_id": {
                            "type": "string",
                        },
                    },
                    "required": ["payment_id"],
                },
            },
            "book_entry": {
                "effect": "write",
                "idempotent": True,
                "args": {
                    "subject_id": {
                        "type": "string",
                    },
                    "cost_centre": {
                        "type": "string",
                    },
                    "payment_id": {
                        "type": "string",
                    },
                },
                "returns": {
                    "type": "string",
                },
            },
            "send_notice": {
                "effect": "write",
                "idempotent": True,
                "args": {
                    "user_id": {
                        "type": "string",
                    },
                    "template": {
                        "type": "string",
                    },
                },
                "returns": {
                    "type": "string",
                },
            },
            "queue_manual": {
                "effect": "write",
                "idempotent": True,
                "args": {
                    "subject_id": {
                        "type": "string",
                    },
                },
                "returns": {
                    "type": "string",
                },
            },
        },
        "guardrails": [
            {
                "name": "within-limits-or-approved",
                "protects": {
                    "tool": "pay_employee",
                },
                "requires": {
                    "any_of": [
                        {
                            "step": "limits",
                            "branch": "otherwise",
                        },
                        {
                            "step": "manager_agrees",
                            "branch": "then",
                        },
                    ],
                },
            },
            {
                "name": "pay-once",
                "at_most_once": {
                    "tool": "pay_employee",
                },
            },
            {
                "name": "payments-are-booked",
                "followed_by": {
                    "first": {
                        "tool": "pay_employee",
                    },
                    "then": {
                        "tool": "book_entry",
                    },
                },
            },
            {
                "name": "paid-or-refused",
                "exclusive": [
                    {
                        "tool": "pay_employee",
                    },
                    {
                        "step": "refuse",
                    },
                ],
            },
        ],
        "steps": [
            {
                "id": "load",
                "type": "tool",
                "tool": "get_expense_report",
                "args": {
                    "report_id": "$report_id",
                },
                "output_key": "report",
                "on_error": "retry",
                "max_retries": 3,
                "error_step": "desk",
            },
            {
                "id": "adds_up",
                "type": "condition",
                "condition": "$report.total == $amount and $receipt_count >= $report.lines",
                "then": "limits",
                "otherwise": "ask_receipts",
            },
            {
                "id": "limits",
                "type": "condition",
                "cases": [
                    {
                        "when": '$category == "meals" and $amount > 60',
                        "then": "ask_manager",
                        "name": "meals",
                    },
                    {
                        "when": '$category == "travel" and $amount > 800',
                        "then": "ask_manager",
                        "name": "travel",
                    },
                    {
                        "when": '$category not in ["meals", "travel"] and $amount > 300',
                        "then": "ask_manager",
                        "name": "things",
                    },
                ],
                "otherwise": "pay",
            },
            {
                "id": "ask_manager",
                "type": "tool",
                "tool": "ask_approver",
                "args": {
                    "subject_id": "$report_id",
                    "role": "manager",
                },
                "output_key": "verdict",
                "error_step": "desk",
                "next_step": "manager_agrees",
            },
            {
                "id": "manager_agrees",
                "type": "condition",
                "condition": "$verdict.approved == true",
                "then": "pay",
                "otherwise": "refuse",
            },
            {
                "id": "pay",
                "type": "tool",
                "tool": "pay_employee",
                "args": {
                    "employee_id": "$employee_id",
                    "amount": "$amount",
                },
                "output_key": "payment",
                "error_step": "desk",
                "next_step": "book",
            },
            {
                "id": "book",
                "type": "tool",
                "tool": "book_entry",
                "args": {
                    "subject_id": "$report_id",
                    "cost_centre": "EXP001",
                    "payment_id": "$payment.payment_id",
                },
                "on_error": "retry",
                "max_retries": 5,
                "error_step": "desk",
            },
            {
                "id": "paid",
                "type": "end",
                "outcome": "success",
                "output": {
                    "payment": "$payment.payment_id",
                },
            },
            {
                "id": "ask_receipts",
                "type": "tool",
                "tool": "send_notice",
                "args": {
                    "user_id": "$employee_id",
                    "template": "receipts-missing",
                },
                "is_terminal": True,
                "outcome": "failure",
            },
            {
                "id": "refuse",
                "type": "tool",
                "tool": "send_notice",
                "args": {
                    "user_id": "$employee_id",
                    "template": "expenses-refused",
                },
                "is_terminal": True,
                "outcome": "failure",
            },
            {
                "id": "desk",
                "type": "tool",
                "tool": "queue_manual",
                "args": {
                    "subject_id": "$report_id",
                },
                "is_terminal": True,
                "outcome": "failure",
            },
        ],
    }
)
