/*
 * json_scan.c
 *		Walks through a JSON text without taking its values apart.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "json_scan.h"

static void skip_string(JsonScan *scan);

char
JsonScanPeek(JsonScan *scan)
{
	while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL)
		scan->at++;
	return scan->at < scan->end ? *scan->at : '\0';
}

bool
JsonScanSkip(JsonScan *scan, char c)
{
	if (JsonScanPeek(scan) != c)
		return false;
	scan->at++;
	return true;
}

JsonSpan
JsonScanValue(JsonScan *scan)
{
	char first = JsonScanPeek(scan);
	const char *begin = scan->at;
	int depth = 0;

	if (first != '"' && first != '{' && first != '[')
	{
		while (scan->at < scan->end && strchr(",]} \t\r\n", *scan->at) == NULL)
			scan->at++;
	}
	else
	{
		do
		{
			char c = *scan->at;

			if (c == '"')
				skip_string(scan);
			else
				scan->at++;
			if (c == '{' || c == '[')
				depth++;
			else if (c == '}' || c == ']')
				depth--;
		} while (depth > 0 && scan->at < scan->end);
	}
	if (scan->at == begin)
		elog(ERROR, "a value is missing in a JSON text");
	return (JsonSpan){begin, scan->at - begin};
}

static void
skip_string(JsonScan *scan)
{
	scan->at++;
	while (scan->at < scan->end && *scan->at != '"')
		scan->at += *scan->at == '\\' ? 2 : 1;
	if (scan->at >= scan->end)
		elog(ERROR, "a string of a JSON text has no end");
	scan->at++;
}

const char *
JsonSpanType(JsonSpan value)
{
	switch (value.data[0])
	{
		case '{':
			return "object";
		case '[':
			return "array";
		case '"':
			return "string";
		case 't':
		case 'f':
			return "boolean";
		case 'n':
			return "null";
		default:
			return "number";
	}
}

char *
JsonSpanText(JsonSpan value)
{
	if (value.data[0] != '"')
		return pnstrdup(value.data, value.len);
	if (memchr(value.data, '\\', value.len) == NULL)
		return pnstrdup(value.data + 1, value.len - 2);

	/* Raises where an escape stands for what no text can hold. */
	return TextDatumGetCString(DirectFunctionCall2(
		json_extract_path_text,
		PointerGetDatum(cstring_to_text_with_len(value.data, value.len)),
		PointerGetDatum(construct_empty_array(TEXTOID))));
}
