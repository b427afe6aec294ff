// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::formats {
class CheckpointStore;
class EntityFile;
class File;
class FileLock;
class FileSystem;
class JournalWriter;
class JsonReader;
class JsonValue;
enum class CsvHeader;
enum class OpenMode;
struct Blob;
struct Checkpoint;
struct CheckpointOptions;
struct CsvOptions;
struct CsvTable;
struct JournalFindings;
struct JournalOptions;
struct JournalPlace;
struct JournalRecord;
struct JsonLimits;
struct NamedBytes;
}  // namespace weft::formats
