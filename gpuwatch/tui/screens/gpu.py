from gpuwatch.tui.screens.live import LiveScreen
class GpuScreen(LiveScreen):
    def __init__(self, name, uuid=None):
        super().__init__()
