def send(**args: object) -> None:
    del args
