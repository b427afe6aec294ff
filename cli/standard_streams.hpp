// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::cli {

/// Opens descriptors 0 to 2 where the caller closed them, before anything else is opened: the next file would take the
/// number, and what is printed would land in it. Using them fails as it does on a closed one (EBADF). Ends the process
/// (exit code 5) where not even that can be done. Also ignores SIGXFSZ: a limit on files' sizes is then an error of a
/// write (EFBIG), as a full disk is.
void secure_standard_streams() noexcept;

/// Flushes stdout. @return true when all that was printed has been taken
bool stdout_is_written() noexcept;
/// True when stdout is a pipe or socket whose reader has gone, as `| head` does: no failure worth words.
bool stdout_reader_is_gone() noexcept;

/// Exit code of a process whose reader has gone: as if SIGPIPE had ended it.
inline constexpr int kReaderGone = 141;

}  // namespace weft::cli
