/*
 * headers.c
 *		The application's own headers.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "headers.h"

static void check_name(const char *name, int len, bool content_type_allowed);

static void
refuse(const char *detail)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		 errmsg("invalid headers of a message"),
		 errdetail_internal("%s", detail),
		 errhint(
			 "Headers are a flat JSON object of strings, numbers, booleans and nulls.")));
}

/* The text of a scalar, as the ->> operator gives it. */
static Utf8
scalar_text(JsonbValue *v)
{
	char *number;

	switch (v->type)
	{
		case jbvString:
			return Utf8FromBytes(v->val.string.val, v->val.string.len);
		case jbvNumeric:
			number = DatumGetCString(DirectFunctionCall1(
				numeric_out, NumericGetDatum(v->val.numeric)));
			return (Utf8){number, strlen(number)};
		case jbvBool:
			return v->val.boolean ? (Utf8){"true", 4} : (Utf8){"false", 5};
		default:
			return (Utf8){NULL, 0};
	}
}

void
HeadersVisit(Datum headers, HeaderVisitor visit, void *arg)
{
	Jsonb *jb = DatumGetJsonbP(headers);
	JsonbIterator *it = JsonbIteratorInit(&jb->root);
	JsonbIteratorToken token;
	JsonbValue v;
	JsonbValue key = {0};
	Utf8 name = {NULL, 0};

	if (!JB_ROOT_IS_OBJECT(jb))
		refuse("They are not a JSON object.");
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			key = v;
			name = Utf8FromBytes(v.val.string.val, v.val.string.len);
		}
		else if (token == WJB_VALUE)
		{
			if (v.type == jbvBinary)
				refuse(psprintf(
					"The value of \"%s\" is an object or an array.",
					pnstrdup(key.val.string.val, key.val.string.len)));
			visit(arg, name, scalar_text(&v), v.type == jbvNull);
		}
	}
}

typedef struct CheckState
{
	bool content_type_allowed;
	Size size;
} CheckState;

static void
check_header(void *arg, Utf8 name, Utf8 value, bool isnull)
{
	CheckState *state = arg;

	check_name(name.data, name.len, state->content_type_allowed);
	state->size += name.len + value.len;
}

Size
HeadersCheck(Datum headers, bool content_type_allowed)
{
	CheckState state = {content_type_allowed, 0};

	HeadersVisit(headers, check_header, &state);
	return state.size;
}

static void
check_name(const char *name, int len, bool content_type_allowed)
{
	bool content_type = len == strlen(HEADER_CONTENT_TYPE) &&
						pg_strncasecmp(name, HEADER_CONTENT_TYPE, len) == 0;

	if (len == 0)
		refuse("The name of a header is empty.");
	if (!(len >= 3 && pg_strncasecmp(name, "ce_", 3) == 0) &&
		!(content_type && !content_type_allowed))
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_RESERVED_NAME),
		 errmsg("header name \"%s\" is reserved",
				pg_any_to_server(pnstrdup(name, len), len, PG_UTF8)),
		 content_type
			 ? errdetail(
				   "It can be given only for a payload of bytes: JSON is always application/json.")
			 : errdetail(
				   "Names that start with \"ce_\" belong to CloudEvents attributes, which outbox sets."),
		 errhint("Choose another name.")));
}
