//! A write as one step: the change, what follows from it, and waking everyone who waits for it.

use super::settle;
use crate::state::ServerState;
use crate::storage::Store;

impl ServerState {
    /// Changes the store, applies the consequences, then wakes the waiting watches and requests.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let (result, touched, revision) = {
            let mut store = self.store.write();
            let result = change(&mut store);
            settle(self, &mut store);
            (result, store.take_touched(), store.revision())
        };
        if !touched.is_empty() {
            self.hub.wake(&touched, revision, self.config.watch_window);
        }
        self.run_controllers();
        result
    }
}
