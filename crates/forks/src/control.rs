//! What commands ask of forks at the control socket of the data directory.
//!
//! | request | answer |
//! |---|---|
//! | `fork JSON` | the fork that was made |
//! | `forks` | all of them |
//! | `fork-reset NAME` | the one that begins anew |
//! | `fork-drop NAME` | the one that was dropped |
//! | `fork-kubeconfig NAME` | the kubeconfig of the administrator, for the fork |
//! | `fork-backup NAME` | a backup |

use std::io::{self, Write};

use schema::Status;
use storage::control::Answer;

use crate::endpoints::{shown, url, write};
use crate::{ForkRequest, Forks, kubeconfig};

impl Answer for Forks {
    fn answer(&self, request: &str, to: &mut dyn Write) -> Option<Result<(), String>> {
        let (verb, argument) = request.split_once(' ').unwrap_or((request, ""));
        let refused = |status: Status| status.message;
        let table = match verb {
            "fork" | "forks" | "fork-reset" | "fork-drop" | "fork-kubeconfig" | "fork-backup" => self.table(),
            _ => return None,
        };
        let failed = |error: io::Error| error.to_string();
        Some(table.map_err(refused).and_then(|table| {
            let root = &table.administrator.url;
            let text = match verb {
                "fork" => {
                    let asked = ForkRequest::read(argument.as_bytes())?;
                    shown(&*table.create(asked).map_err(refused)?, root)
                }
                "forks" => table.all().iter().map(|fork| shown(fork, root)).collect::<Vec<_>>().join("\n"),
                "fork-reset" => {
                    let fork = table.find(argument).map_err(refused)?;
                    fork.reset().map_err(refused)?;
                    shown(&fork, root)
                }
                "fork-drop" => shown(&*table.remove(argument).map_err(refused)?, root),
                "fork-kubeconfig" => {
                    let fork = table.find(argument).map_err(refused)?;
                    let own = (table.administrator.kubeconfig)().map_err(failed)?;
                    kubeconfig::with_server(&own, &url(root, &fork.name))
                }
                _ => {
                    let fork = table.find(argument).map_err(refused)?;
                    to.write_all(storage::control::OK).map_err(failed)?;
                    // A backup that is not finished shows that by its missing end.
                    return write(table, &*fork.store(), to).map_err(|error| error.to_string());
                }
            };
            to.write_all(storage::control::OK).and_then(|()| to.write_all(text.as_bytes())).map_err(failed)
        }))
    }
}
