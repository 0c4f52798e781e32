"""The key that profiles the rank under the cursor, together with the median rank of its job."""

from __future__ import annotations

from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank
from gpuwatch.tui.navigation import Navigation
from gpuwatch.tui.toolkit.live_screen import LiveScreen


class ProfileKey(Navigation):
    """An app that can profile running ranks."""

    def action_profile(self) -> None:
        """Show the cost of profiling the rank under the cursor; on the profile screen, start it."""
        from gpuwatch.tui.profile.screen import ProfileScreen  # noqa: PLC0415 - loaded when it is first opened

        if isinstance(self.screen, ProfileScreen):
            if not self.screen.page.profiling.over:
                self.screen.action_start_profile()
                return
            self.pop_screen()
        if self.view_state.replay is not None:
            self.notify("a recording has no running rank to sample", timeout=3)
            return
        place = self.place_under_cursor()
        if place is None:
            fleet = self.key_of("app.training")
            self.notify(f"no rank under the cursor; screen {fleet} lists the ranks", timeout=3)
            return
        peer = self._median_peer(place)
        places = [place] if peer is None else [place, peer]
        self.push_screen(ProfileScreen(self.view_state.session.profile(places, self.view_state.placement)))

    def place_under_cursor(self) -> PlacedRank | None:
        """Return the rank under the cursor with its node and process; None without one or if it has ended."""
        place = self.screen.rank_place() if isinstance(self.screen, LiveScreen) else None
        return place if place is not None and place.alive and place.rank is not None else None

    def _median_peer(self, place: PlacedRank) -> PlacedRank | None:
        from gpuwatch.diagnose.profiles.rank_choice import median_rank  # noqa: PLC0415 - rarely needed

        view = self.view_state
        return median_rank(view.session.fleet, view.placement, place, view.now, view.wall())
