// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::storage {
class CheckpointStore;
class File;
class FileLock;
class FileSystem;
class JournalWriter;
class MappedFile;
enum class OpenMode;
struct Checkpoint;
struct CheckpointOptions;
struct JournalFindings;
struct JournalOptions;
struct JournalPlace;
struct JournalRecord;
struct NamedBytes;
struct ResumedJournal;
}  // namespace weft::storage
