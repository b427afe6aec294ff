# SPDX-License-Identifier: Apache-2.0
# A mesh of `weft serve` (docs/server.md) for Godot 3. Calls wait for their answer: a frame loop makes them in a Thread.
extends Reference

var problem := ""  # of the last call; empty: it went well
var _client := HTTPClient.new()
var _host := ""
var _port := 0


func _init(host: String, port: int) -> void:
	_host = host
	_port = port


# The answer as a Dictionary; null where `problem` says why there is none.
func ask(method: int, path: String, body = null):
	problem = ""
	if not _is_connected():
		problem = "no server at %s:%d" % [_host, _port]
		return null
	var text := "" if body == null else to_json(body)
	var headers := ["Content-Type: application/json"]
	if _client.request(method, "/api/v1" + path, headers, text) != OK:
		problem = "the request was not sent"
		return null
	while _client.get_status() == HTTPClient.STATUS_REQUESTING:
		_client.poll()
		OS.delay_usec(100)
	var bytes := PoolByteArray()
	while _client.get_status() == HTTPClient.STATUS_BODY:
		_client.poll()
		bytes.append_array(_client.read_response_body_chunk())
	var answer = parse_json(bytes.get_string_from_utf8()) if bytes.size() > 0 else null
	if _client.get_response_code() >= 300:
		problem = "%d: %s" % [_client.get_response_code(), bytes.get_string_from_utf8()]
		return null
	return answer


func _is_connected() -> bool:
	if _client.get_status() == HTTPClient.STATUS_CONNECTED:
		return true
	_client.close()
	if _client.connect_to_host(_host, _port) != OK:
		return false
	while _client.get_status() in [HTTPClient.STATUS_CONNECTING, HTTPClient.STATUS_RESOLVING]:
		_client.poll()
		OS.delay_usec(100)
	return _client.get_status() == HTTPClient.STATUS_CONNECTED
