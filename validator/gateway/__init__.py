"""The gateway: what a model may ask of the gate and of the machine, under the limits that the operator sets."""
