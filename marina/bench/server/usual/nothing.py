"""A handler that does nothing: what a worker of TorchServe takes by itself."""


class Nothing:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        return ["ok"] * len(data)
