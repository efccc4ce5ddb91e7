"""A handler that does nothing: it shows the cost of a TorchServe worker by itself."""


class Nothing:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        return ["ok"] * len(data)
