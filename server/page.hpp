// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_message.hpp"

#include <optional>

namespace weft::server {

/// The page at `/` and its files below `/assets/`, which are part of the program (Service::Options::assets). They have
/// an ETag of their content, and a policy under which a browser loads nothing from elsewhere; 304 where the browser has
/// the file already, 405 to methods other than GET and HEAD. Nothing: no file of this path.
/// @thread any
std::optional<HttpResponse> page_asset(const HttpRequest& request);

}  // namespace weft::server
