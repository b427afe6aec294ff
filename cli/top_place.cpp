// SPDX-License-Identifier: Apache-2.0

#include "cli/top_place.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace weft::cli {
namespace {

constexpr std::size_t kLongestNote = 4096;

std::string note_in(const std::string& directory) { return directory + "/top.path"; }

bool is_private(const std::string& directory) {
  struct stat there {};
  return lstat(directory.c_str(), &there) == 0 && S_ISDIR(there.st_mode) && there.st_uid == geteuid() &&
         (there.st_mode & 077) == 0;
}

/// Directory of sockets. A service's directory may be one of several, with colons between.
Result<std::string> socket_directory() {
  if (const char* const service = std::getenv("RUNTIME_DIRECTORY"); service && *service == '/')
    return std::string(service).substr(0, std::string(service).find(':'));
  if (const char* const session = std::getenv("XDG_RUNTIME_DIR"); session && *session == '/' && is_private(session))
    return std::string(session);
  const std::string made = "/tmp/weft-" + std::to_string(geteuid());
  if (mkdir(made.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::storage, made + ": cannot be made: " + std::strerror(errno) + "; set XDG_RUNTIME_DIR");
  if (!is_private(made))
    return fail(Errc::storage, made + ": is another user's or open to others; remove it or set XDG_RUNTIME_DIR");
  return made;
}

std::optional<std::string> read_note(const std::string& directory) {
  const auto text = storage::real_file_system().read(note_in(directory), kLongestNote);
  if (!text) return std::nullopt;
  std::string path(reinterpret_cast<const char*>(text->data()), text->size());
  path.resize(std::min(path.find('\n'), path.size()));
  if (!path.starts_with("/")) return std::nullopt;
  return path;
}

}  // namespace

Result<std::string> socket_for(const std::string& directory) {
  struct stat there {};
  if (stat(directory.c_str(), &there) != 0)
    return fail(Errc::storage, directory + ": cannot be looked at: " + std::strerror(errno));
  WEFT_TRY(const std::string sockets, socket_directory());
  char name[64];
  std::snprintf(name, sizeof name, "/weft-%llx-%llx.sock", static_cast<unsigned long long>(there.st_dev),
                static_cast<unsigned long long>(there.st_ino));
  return sockets + name;
}

Status note_socket(const std::string& directory, const std::string& socket) {
  const std::string line = socket + "\n";
  return storage::write_file_durably(storage::real_file_system(), note_in(directory), as_bytes(line));
}

void forget_socket(const std::string& directory, const std::string& socket) noexcept {
  if (read_note(directory) == socket) unlink(note_in(directory).c_str());
}

Result<std::string> socket_of(const std::string& place) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(place, unknown)) return place;
  if (const auto noted = read_note(place)) return *noted;
  return fail(Errc::not_found, "socket of " + place + ": there is none (no top.path)");
}

std::string why_silent(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  std::ifstream in("/proc/" + std::to_string(peer.pid) + "/stat");
  std::string stat;
  std::getline(in, stat);
  const std::size_t name_end = stat.rfind(") ");  // the name before it may hold anything
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return {};
  const char state = stat[name_end + 2];
  if (state != 'T' && state != 't') return {};
  return "process " + std::to_string(peer.pid) + " is stopped (kill -CONT " + std::to_string(peer.pid) +
         " lets it go on)";
}

}  // namespace weft::cli
