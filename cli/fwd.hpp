// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace CLI {
class App;
}

namespace weft::cli {
struct Verb;
struct Terminal;
struct Model;
struct RunRequest;
struct RunSetup;
class Session;
class Table;
class Reporter;
}  // namespace weft::cli
