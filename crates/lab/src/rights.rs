//! The right to make network namespaces: root's, or one's own.

use std::path::Path;

use crate::error::LabError;

/// By which right a run makes its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root of this machine.
    Root,
    /// Root of a user namespace of its own: no SCHED_FIFO, no locked memory beyond the limit.
    OwnUserNamespace,
}

impl Rights {
    /// Takes what this user can have. Call it before the first thread is started; `folder` is where results will go.
    ///
    /// # Errors
    /// Neither root nor allowed to make a user namespace, or the results would vanish with it.
    pub fn take(folder: &Path) -> Result<Self, LabError> {
        if nix::unistd::geteuid().is_root() {
            return Ok(Self::Root);
        }
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        if absolute.starts_with("/run") {
            return Err(LabError::Scenario {
                what: format!(
                    "{} is below /run, of which a run without root has one of its own that ends with it",
                    folder.display()
                ),
                mend: "name a folder elsewhere with --out".into(),
            });
        }
        rt::process::enter_own_user_namespace().map(|()| Self::OwnUserNamespace).map_err(|error| LabError::Host {
            what: format!(
                "a run makes network namespaces; this user is not root, and a user namespace of its own is refused \
                 ({error})"
            ),
            mend: "start it with sudo, or allow user namespaces (`sysctl user.max_user_namespaces`, on Ubuntu \
                   `kernel.apparmor_restrict_unprivileged_userns`); `downbeat bound` and `downbeat simulate` need no \
                   rights"
                .into(),
        })
    }

    /// How results name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::OwnUserNamespace => "a user namespace of its own",
        }
    }
}
