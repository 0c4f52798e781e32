from gpuwatch.tui.screens.live import LiveScreen
class NodeScreen(LiveScreen):
    def __init__(self, name, uuid=None):
        super().__init__()
