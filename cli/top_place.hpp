// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>

namespace weft::cli {

/// Path of the socket of a run kept in `directory`. It lies outside: in $RUNTIME_DIRECTORY (a service's),
/// $XDG_RUNTIME_DIR, or /tmp/weft-UID, so that the directory holds plain files alone and can be copied after a kill.
/// The directory of sockets is made where it is /tmp/weft-UID, private to the user.
/// @error storage: that directory is another user's, open to others, or cannot be made
Result<std::string> socket_for(const std::string& directory);

/// Notes in `directory` where its socket is: top.path, one line, replaced whole.
Status note_socket(const std::string& directory, const std::string& socket);
/// Removes the note, if it names `socket`.
void forget_socket(const std::string& directory, const std::string& socket) noexcept;

/// The socket of `place`: what a directory's note names, else the path itself.
/// @error not_found: a directory without a note
Result<std::string> socket_of(const std::string& place);

/// "process 17 is stopped (...)" where that is why nobody answers on `socket`, which is connected; else nothing.
std::string why_silent(int socket);

}  // namespace weft::cli
